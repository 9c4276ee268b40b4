package launcher

import "hash/fnv"

// handshakePort is the port at which an engine and the gateway first meet that speak
// over the socket at path. Both sides work it out alike.
func handshakePort(path string) int {
	h := fnv.New64a()
	_, _ = h.Write([]byte(path)) // a hash takes everything
	return 20000 + int(h.Sum64()%10000)
}

// checkHandshakes refuses engines that would meet the gateway at the same port.
func (c Config) checkHandshakes(places []Place) error {
	if c.Mode != ModeZMQ {
		return nil
	}
	taken := map[int]string{}
	for _, p := range places {
		url, port := c.url(p.Port), handshakePort(c.socket(p.Port))
		if other := taken[port]; other != "" {
			return &LaunchError{
				what:   "two engines would meet the gateway at the same port",
				detail: []string{other, url},
				hint:   "give another --worker-base-port",
			}
		}
		taken[port] = url
	}
	return nil
}

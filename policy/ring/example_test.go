package ring_test

import (
	"fmt"

	"smg/policy/ring"
)

func ExampleRing_First() {
	urls := []string{"http://w1:8000", "http://w2:8000", "http://w3:8000"}
	r := ring.New(urls)
	position := ring.Position([]byte("user-123"))
	fmt.Println(urls[r.First(position, func(int) bool { return true })])
	// The third worker is down.
	fmt.Println(urls[r.First(position, func(owner int) bool { return owner != 2 })])
	// Output:
	// http://w3:8000
	// http://w1:8000
}

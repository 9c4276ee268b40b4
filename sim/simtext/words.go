package simtext

import "strings"

// words are what answers are made of. Each fits one token, and some are not
// ASCII, so that relays which cut text in the wrong place are found out.
func words() []string {
	return strings.Fields(`
	the a of to and in is it that was for on are with as they be at one have
	this from by hot but some what there we can out other were all your when
	up use word how said an each she which do their time if will way about
	many then them would write like so these her long make thing see him two
	has look more day could go come did my sound no most number who over know
	water than call first people may down side been now find any new work part
	take get place made live where after back little only round man year came
	show every good me give our under name very through just form much great
	think say help low line before turn cause same mean differ move right boy
	old too does tell sentence set three want air well also play small end put
	home read hand port large spell add even land here must big high such
	follow act why ask men change went light kind off need house picture try
	us again animal point mother world near build self earth father head stand
	own page should country found answer school grow study still learn plant
	cover food sun four thought let keep eye never last door between city tree
	cross since hard start might story saw far sea draw left late run while
	press close night real life few stop river stone café naïve Zürich über
	señor déjà 数据 模型 学习 東京 мир 서울 élan 🙂 φως`)
}

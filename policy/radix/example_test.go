package radix_test

import (
	"fmt"

	"smg/policy/radix"
)

func Example() {
	f := radix.NewText(1000)
	w1, w2 := [16]byte{1}, [16]byte{2}
	var p radix.Place

	f.Match(&p, 0, "hello world")
	fmt.Println(p.Matched, "of", p.Input)
	f.Insert(&p, w1) // whoever was chosen

	f.Match(&p, 0, "hello there")
	fmt.Println(p.Matched, "of", p.Input, "held by w1:", p.Holders[0].ID() == w1)
	receipt := f.Insert(&p, w2)
	fmt.Println("units:", f.Stats().Units)

	f.Undo(receipt) // the request did not reach w2
	fmt.Println("units:", f.Stats().Units)
	// Output:
	// 0 of 11
	// 6 of 11 held by w1: true
	// units: 22
	// units: 11
}

package kvindex_test

import (
	"fmt"
	"time"

	"smg/policy/kvindex"
	"smg/worker"
)

func ExampleIndex_Match() {
	now := time.Now()
	ix := kvindex.New(kvindex.Bounds{}, now)
	src := ix.Track(worker.ID{1}, 2)
	_ = src.Store(0, []kvindex.Block{
		{Hash: 71, Tokens: []uint32{1, 2}},
		{Hash: 72, Tokens: []uint32{3, 4}},
	}, now)
	for _, s := range ix.Match([]uint32{1, 2, 3, 4, 5, 6, 7}, now, nil) {
		fmt.Printf("%d blocks of %d tokens\n", s.Blocks, s.BlockSize)
	}
	// Output:
	// 2 blocks of 2 tokens
}

func ExampleFeed() {
	now := time.Now()
	f := kvindex.NewFeed(kvindex.New(kvindex.Bounds{}, now), worker.ID{1}, kvindex.ByNumber)
	fmt.Printf("%+v\n", f.Begin())
	f.Connected()
	fmt.Printf("%+v\n", f.Apply(&kvindex.Batch{Seq: 7, Events: []kvindex.Event{{
		Kind:   kvindex.Stored,
		Blocks: []kvindex.Block{{Hash: 71, Tokens: []uint32{1, 2}}},
	}}}, now))
	fmt.Printf("%+v\n", f.Ended(kvindex.EndOther))
	// Output:
	// {Do:connect After:0s From:[] Err:<nil>}
	// {Do:read After:0s From:[] Err:<nil>}
	// {Do:connect After:100ms From:[{Rank:0 Seq:7}] Err:<nil>}
}

package policy_test

import (
	"errors"
	"fmt"
	"time"

	"smg/policy"
	"smg/worker"
)

// exampleRegistry is two ready workers of one model.
func exampleRegistry() *worker.Registry {
	registry := worker.NewRegistry(worker.NewFold(), 3)
	for i, url := range []string{"http://w1:8000", "http://w2:8000"} {
		id := worker.IDOf(url)
		registry.Install(worker.Record{Worker: id, Status: worker.Ready, Seq: 1})
		registry.Put(&worker.Spec{
			ID: id, URL: url, Models: []worker.Model{{ID: "smollm2"}},
			RegisteredAt: time.Unix(int64(i), 0),
		})
	}
	return registry
}

func ExampleNew() {
	p, err := policy.New(policy.RoundRobin, policy.DefaultConfig(), policy.Deps{})
	if err != nil {
		fmt.Println(err)
		return
	}
	pool := exampleRegistry().Pool(worker.Regular, "smollm2")
	for plan := range uint64(3) {
		req := policy.Request{Ask: worker.Ask{Lease: worker.LeaseID{Incarnation: 1, Plan: plan + 1}, Now: time.Unix(10, 0)}}
		d, err := p.Pick(&req, pool)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(d.Worker.Spec.URL, "in flight:", d.Worker.Load.Active())
	}
	// Output:
	// http://w1:8000 in flight: 1
	// http://w2:8000 in flight: 1
	// http://w1:8000 in flight: 2
}

func ExamplePolicy_target() {
	p, err := policy.New(policy.ConsistentHashing, policy.DefaultConfig(), policy.Deps{})
	if err != nil {
		fmt.Println(err)
		return
	}
	pool := exampleRegistry().Pool(worker.Regular, "smollm2")
	for plan, target := range []string{"1", "2"} {
		req := policy.Request{
			Ask:    worker.Ask{Lease: worker.LeaseID{Incarnation: 1, Plan: uint64(plan) + 1}, Now: time.Unix(10, 0)},
			Target: target,
		}
		d, err := p.Pick(&req, pool)
		if errors.Is(err, policy.ErrInvalidTarget) {
			fmt.Println(d.Branch, err)
			continue
		}
		fmt.Println(d.Branch, d.Worker.Spec.URL)
	}
	// Output:
	// target_worker_hit http://w2:8000
	// target_worker_miss the policy chose no worker: invalid target worker: there are 2 available workers, counted from 0
}

func ExampleBook() {
	book, err := policy.NewBook(policy.DefaultConfig(), policy.Deps{})
	if err != nil {
		fmt.Println(err)
		return
	}
	book.Added(&worker.Spec{
		ID: worker.IDOf("http://w1:8000"), URL: "http://w1:8000",
		Models: []worker.Model{{ID: "chat"}}, Labels: map[string]string{"policy": "ConsistentHashing"},
	})
	for _, model := range []string{"chat", "embed"} {
		name, _ := book.For(model)
		fmt.Println(model, name)
	}
	// Output:
	// chat consistent_hashing
	// embed cache_aware
}

func ExampleConfig_Validate() {
	cfg := policy.DefaultConfig()
	cfg.CacheAware.Threshold, cfg.CacheAware.Index = 1.5, policy.HashIndex
	fmt.Println(cfg.Validate())
	cfg.Policy = "fastest"
	fmt.Println(cfg.Validate())
	// Output:
	// --cache-threshold is 1.5: it must be between 0 and 1
	// --cache-index is hash: it needs --cache-boundaries, such as 2048,8192
	// --policy: unknown policy "fastest": the policies are random, round_robin, passthrough, cache_aware, power_of_two, least_load, prefix_hash, consistent_hashing, manual, bucket
}

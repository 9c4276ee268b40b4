package study

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"
)

// Trial is what contenders are compared by.
type Trial struct {
	Site    Config
	Work    *Workload
	Measure Measure
	// Rounds is how often each contender runs, each time with the next seed.
	Rounds int
	// Progress is told of every run that has ended, from one goroutine at a time.
	Progress io.Writer
}

// Compare runs the contenders, as many side by side as there are CPUs, and returns a
// row for each. The rows do not depend on the number of CPUs.
func (t *Trial) Compare(ctx context.Context, contenders []Contender) ([]Row, error) {
	rows := make([]Row, len(contenders))
	progress := make(chan string)
	told := make(chan struct{})
	go func() {
		defer close(told)
		for line := range progress {
			fmt.Fprintln(t.Progress, line)
		}
	}()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, c := range contenders {
		rows[i] = Row{Name: c.Name, Runs: make([]Summary, t.Rounds)}
		for round := range t.Rounds {
			g.Go(func() error {
				began, site := time.Now(), t.Site
				site.Seed += uint64(round)
				result, err := Run(ctx, site, t.Work, c)
				if err != nil {
					return err
				}
				rows[i].Runs[round] = t.Measure.Summarize(t.Work, result)
				progress <- fmt.Sprintf("%s, round %d: %.1f s", c.Name, round+1, time.Since(began).Seconds())
				return nil
			})
		}
	}
	err := g.Wait()
	close(progress)
	<-told
	return rows, err
}

// Describe writes what all rows have in common. rate says how requests arrive.
func (t *Trial) Describe(w io.Writer, rate string) {
	t.describeWork(w, rate)
	fmt.Fprintf(w, "ingresses %d, selectors %d, %s\n\n", t.Site.Ingresses, t.Site.Selectors, t.rounds())
}

// describeWork is Describe without how the site is run.
func (t *Trial) describeWork(w io.Writer, rate string) {
	work, e := t.Work, t.Site.Engine
	blocks := work.Blocks()
	fmt.Fprintf(w, "%s: %d requests in %v, %.2f/s (%s); an endless cache would hit %.3f of %d blocks\n",
		work.Name, len(work.Requests), work.Length().Round(time.Second), float64(len(work.Requests))/max(work.Length(), time.Millisecond).Seconds(),
		rate, ratio(work.IdealHits(), blocks), blocks)
	fmt.Fprintf(w, "%d workers: prefill %.0f tokens/s in chunks of %d, decode step %v + %v a sequence, %d tokens of KV in blocks of %d\n",
		t.Site.Workers, e.PrefillTokensPerSecond, e.ChunkTokens, e.DecodeStep, e.DecodePerSequence, e.KVBlocks*e.BlockSize, e.BlockSize)
}

func (t *Trial) rounds() string {
	return fmt.Sprintf("load polls every %v; medians of %d rounds (least–most), seeds from %d; %s", t.Site.Poll, t.Rounds, t.Site.Seed, runtime.Version())
}

// Package replay is the replay command: it reads recordings, runs policies over them
// in virtual time and prints a table. Only the program smg links it.
package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"smg/cmd/internal/flags"
	"smg/cmd/internal/terminal"
	"smg/policy"
	"smg/record"
	"smg/sim"
	"smg/study"
	"smg/study/recorded"
	"smg/worker"
)

// exitInterrupted is the exit code after Ctrl-C.
const exitInterrupted = 130

// Main replays what cmd says and returns the exit code. The table goes to stdout,
// everything else to stderr.
func Main(cmd *flags.Command, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, cmd, stdout, stderr)
	if errors.Is(err, context.Canceled) {
		return exitInterrupted
	}
	return flags.Report(stderr, err)
}

func run(ctx context.Context, cmd *flags.Command, stdout, stderr io.Writer) error {
	r := cmd.Replay
	rec, err := load(r.Files)
	if err != nil {
		return err
	}
	engine := engineOf(r)
	traffic, err := rec.Traffic(recorded.Options{Model: r.Model, Rate: r.Rate, Output: r.OutputTokens, Engine: engine})
	if err != nil {
		return err
	}
	traffic.Name = strings.Join(r.Files, ", ")
	trial := study.Trial{Site: study.DefaultConfig(), Work: traffic.Workload, Measure: study.DefaultMeasure(), Rounds: r.Rounds, Progress: stderr}
	trial.Site.Engine, trial.Site.Workers, trial.Site.Seed, trial.Site.Poll = engine, r.Workers, uint64(r.Seed), cmd.Launch.LoadMonitorInterval
	if trial.Site.Workers == 0 {
		trial.Site.Workers = traffic.Workers
	}
	if trial.Site.Workers == 0 {
		return &flags.Fault{
			What: "no worker was there while this was recorded", Where: traffic.Name, Hint: "say how many engines there are to be with --workers", Code: flags.ExitFailure,
		}
	}
	if err := trial.Site.Validate(); err != nil {
		return err
	}
	contenders, notes, err := contendersOf(cmd, traffic, trial.Site.Workers)
	if err != nil {
		return err
	}
	for _, n := range append(remarks(rec, traffic), notes...) {
		fmt.Fprintf(stderr, "note: %s\n", n)
	}
	fmt.Fprintf(stdout, "model %s, %s leg, recorded under %s\n", named(traffic.Model), traffic.Leg, traffic.Policy)
	trial.Describe(stdout, fmt.Sprintf("%g times the rate of the recording", r.Rate))
	rows, err := trial.Compare(ctx, contenders)
	if err != nil {
		return err
	}
	return study.Print(stdout, trial.Measure, rows)
}

// load reads the recordings.
func load(names []string) (*recorded.Recording, error) {
	var files []recorded.File
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return nil, &flags.Fault{What: cause(err), Where: name, Hint: "name files that smg launch --record FILE has written", Code: flags.ExitFailure}
		}
		defer f.Close()
		files = append(files, recorded.File{Name: name, Data: f})
	}
	rec, err := recorded.Load(files...)
	hint := ""
	switch {
	case errors.Is(err, record.ErrNotOne):
		hint = "name files that smg launch --record FILE has written"
	case errors.Is(err, record.ErrVersion):
		hint = "replay it with the version of smg that has written it"
	}
	if hint != "" {
		return nil, &flags.Fault{What: err.Error(), Hint: hint, Code: flags.ExitFailure}
	}
	return rec, err
}

// cause is what is wrong with a file, without its name.
func cause(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}

// engineOf is the engines that the flags describe.
func engineOf(r *flags.Replay) sim.Config {
	e := sim.DefaultConfig()
	e.BlockSize, e.KVBlocks = r.BlockTokens, r.KVTokens/r.BlockTokens
	e.ContextLength = r.KVTokens
	e.MaxQueue = 0
	e.MaxRunning, e.ChunkTokens, e.PrefillTokensPerSecond = r.MaxRunning, r.ChunkTokens, r.PrefillTPS
	e.DecodeStep = time.Duration(r.DecodeStepMS * float64(time.Millisecond))
	e.DecodePerSequence = time.Duration(r.DecodeSeqUS * float64(time.Microsecond))
	return e
}

// contendersOf are the rows: a choice that knows everything, the choices that were
// recorded, and the policies.
func contendersOf(cmd *flags.Command, t *recorded.Traffic, workers int) (all []study.Contender, notes []string, err error) {
	all = append(all, study.Greedy())
	all[0].Leg = t.Leg
	if c, ok := t.AsRecorded(workers); ok {
		all = append(all, c)
	} else {
		notes = append(notes, "no line tells how it was recorded: there were other workers, or more of them")
	}
	names := cmd.Replay.Policies
	if len(names) == 0 {
		names = suited(t.Leg, workers)
	} else if slices.Contains(names, policy.Bucket) && t.Leg != worker.Prefill {
		notes = append(notes, "bucket has its buckets on a prefill leg only; here it picks workers at random")
	}
	for _, name := range names {
		c, err := t.Contender(cmd.Launch.PolicyConfig(name))
		if err != nil {
			return nil, nil, err
		}
		all = append(all, c)
	}
	return all, notes, nil
}

// suited are the policies that somebody may choose for a leg.
func suited(leg worker.Leg, workers int) []string {
	return slices.DeleteFunc(policy.Names(), func(name string) bool {
		return name == policy.Bucket && leg != worker.Prefill || name == policy.Passthrough && workers > 1
	})
}

// remarks are what to know of the recording.
func remarks(rec *recorded.Recording, t *recorded.Traffic) []string {
	var out []string
	say := func(n int, what, text string) {
		if n > 0 {
			out = append(out, terminal.Counted(n, what)+" "+text)
		}
	}
	say(rec.Cut, "recording", "without an end: the writer was stopped hard, or is still at it")
	say(int(rec.Lost), "record", "lost while this was recorded: the disk was too slow")
	say(rec.Strays, "call", "left out: nothing tells of their choice, as of calls that began before the recording or were chosen for without a selector")
	say(t.Others, "request", "of other models left out: --model chooses another")
	say(t.Retries, "repeated attempt", "left out: simulated engines do not fail")
	say(t.Fitted, "request", "that workers of some kinds or groups only could serve: here all are alike")
	say(t.Unknown, "request", "of unknown length: they count as what their workers were credited with")
	return out
}

func named(model string) string {
	if model == "" {
		return "unnamed"
	}
	return model
}

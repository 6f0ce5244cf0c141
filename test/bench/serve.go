package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/podrun/podrun/test/bench/result"
)

// The targets of `podrun serve`, and the values of a standalone kubelet 1.36 with the same pods.
const (
	// from the addition of a file until the pod runs, compared with podrun apply
	maxServeRatio   = 1.15
	maxRestart      = 50  // ms from an exit to the decision about it
	maxProbeAction  = 100 // ms from a probe's threshold to the action
	maxRealMemory   = 24  // MB of private memory at 100 running pods
	maxFakeMemory   = 124 // MB of private memory at 500 pods
	maxIdle         = 1   // percent of a processor
	kubeletStart    = "236 ms"
	kubeletTenInits = "10.1 s"
)

// serveRow is a line of the report.
type serveRow struct {
	Name, Unit string
	Value      float64
	Samples    numbers
	// the maximum value that passes; 0 for no target
	Target  float64
	Kubelet string
}

// row returns the row of the run, with the value as the only sample: it may be the maximum of the
// samples.
func (r serveRow) row() result.Row { return result.NewRow(r.Name, r.Unit, numbers{r.Value}, nil) }

// medianOf returns a row with the median of samples.
func medianOf(name, unit string, samples numbers, target float64, kubelet string) serveRow {
	return serveRow{Name: name, Unit: unit, Value: samples.median(), Samples: samples, Target: target, Kubelet: kubelet}
}

// greatestOf returns a row with the maximum of samples.
func greatestOf(name, unit string, samples numbers, target float64, kubelet string) serveRow {
	return serveRow{Name: name, Unit: unit, Value: slices.Max(samples), Samples: samples, Target: target, Kubelet: kubelet}
}

// serveOptions are the options for -serve.
type serveOptions struct {
	pods int // number of pods on the real runtime
	// numbers of pods on the fake runtime, measured one after the other
	fake []int
	idle time.Duration // observation time of an idle serve
}

// benchServe runs the matching measurements and prints the report. Even after an error, it removes
// the objects that it created.
func benchServe(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp("", "podrun-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	client, err := dial(o.endpoint)
	if err != nil {
		return err
	}
	defer client.Close()
	b := &serveBench{options: o, podrun: &podrun{name: "podrun", dir: dir}, client: client}
	if b.podrun.path, err = copyBinary(o.podrun, dir); err != nil {
		return err
	}
	// This removes leftovers of a killed bench.
	if err := b.podrun.deleteAll(ctx); err != nil {
		return err
	}
	run, err := newResult(ctx, o, client)
	if err != nil {
		return err
	}
	var rows []serveRow
	for _, section := range []struct {
		name    string
		measure func(context.Context) ([]serveRow, error)
	}{
		{"start", b.measureDrops}, {"restart", b.measureRestarts}, {"probe", b.measureProbes},
		{"real", b.measureReal}, {"fake", b.measureFake}, {"idle", b.measureIdle},
	} {
		if o.match != nil && !o.match.MatchString(section.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "bench: %s\n", section.name)
		found, err := section.measure(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", section.name, err)
		}
		rows = append(rows, found...)
	}
	for _, r := range rows {
		run.Rows = append(run.Rows, r.row())
	}
	if !o.json {
		err = writeServeTable(os.Stdout, rows)
	}
	return errors.Join(err, finish(run, o))
}

// serveBench is the state that the measurements share.
type serveBench struct {
	options
	podrun *podrun
	client *runtimeClient
}

// measureReal runs many pods under serve on the real runtime, and measures serve while it is
// idle.
func (b *serveBench) measureReal(ctx context.Context) (rows []serveRow, err error) {
	s, err := b.serve("real", b.endpoint)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.remove(ctx)) }()
	measured := func(pods int, target float64) (usage, error) {
		if err := s.await(ctx, b.client, pods); err != nil {
			return usage{}, err
		}
		u, err := s.watchIdle(ctx, b.serveOptions.idle)
		rows = append(rows, greatestOf(fmt.Sprintf("private memory, %d pods on containerd", pods), "MB", u.memory, target, ""),
			serveRow{Name: fmt.Sprintf("CPU time, idle, %d pods", pods), Unit: "%", Value: u.processor, Target: maxIdle})
		return u, err
	}
	n := b.serveOptions.pods
	few := min(37, n/2)
	if err := s.drop(0, few, b.image); err != nil {
		return nil, err
	}
	first, err := measured(few, 0)
	if err != nil {
		return nil, err
	}
	if err := s.drop(few, n, b.image); err != nil {
		return nil, err
	}
	last, err := measured(n, maxRealMemory)
	if err != nil {
		return nil, err
	}
	goroutines, err := s.goroutines()
	if err != nil {
		return nil, err
	}
	more := float64(n - few)
	return append(rows,
		serveRow{Name: "private memory a pod", Unit: "KB", Value: 1000 * (last.memory.median() - first.memory.median()) / more},
		serveRow{Name: "file descriptors a pod", Unit: "", Value: float64(last.files-first.files) / more},
		serveRow{Name: fmt.Sprintf("goroutines, %d pods", n), Unit: "", Value: float64(goroutines)}), nil
}

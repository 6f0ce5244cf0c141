package main

import (
	"context"
	"errors"
	"time"

	"github.com/podrun/podrun/test/bench/result"
)

// numbers are samples, which are milliseconds or ratios.
type numbers []float64

func (n *numbers) add(d time.Duration) { *n = append(*n, milliseconds(d)) }

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (n numbers) median() float64 { return result.Summarize(n).Median }

// contender is a program that does the same as others, in alternation with them.
type contender struct {
	name string
	// before prepares a run; nil if there is nothing to prepare. It is not measured.
	before func() error
	// run returns the time that counts, which may be less than its duration.
	run func() (time.Duration, error)
	// after removes the objects of the run, even if the run failed. It is not measured; nil if there is
	// nothing to remove.
	after func() error
}

// samples are the measurements of a contender, one for each round.
type samples struct {
	name                string
	took, faults, forks numbers
}

// program returns the figures of a contender.
func (s samples) program() result.Program {
	return result.Program{Name: s.name, Time: result.Summarize(s.took), Faults: s.faults.median(), Forks: s.forks.median()}
}

// interleave runs all contenders in each round, in the order A B, B A, A B, …, so that a machine that
// becomes slower or faster affects all of them. The first round is only a warm-up.
func (o options) interleave(ctx context.Context, most int, all ...contender) ([]samples, error) {
	out := make([]samples, len(all))
	for i, c := range all {
		out[i].name = c.name
		if err := c.once(&samples{}); err != nil {
			return nil, err
		}
	}
	for round := range o.rounds(most) {
		for _, i := range order(round, len(all)) {
			if err := errors.Join(all[i].once(&out[i]), ctx.Err()); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// order returns the order of n contenders in a round.
func order(round, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
		if round%2 == 1 {
			out[i] = n - 1 - i
		}
	}
	return out
}

func (c contender) once(into *samples) (err error) {
	if c.before != nil {
		if err := c.before(); err != nil {
			return err
		}
	}
	if c.after != nil {
		defer func() { err = errors.Join(err, c.after()) }()
	}
	before, err := readCounters()
	if err != nil {
		return err
	}
	took, err := c.run()
	if err != nil {
		return err
	}
	after, err := readCounters()
	into.took.add(took)
	into.faults = append(into.faults, float64(after.faults-before.faults))
	into.forks = append(into.forks, float64(after.forks-before.forks))
	return err
}

// ratioRow returns the row of the ratio of podrun to another program. The samples are those of podrun,
// of the other program and, if there is one, of the second podrun.
func ratioRow(name string, all []samples) result.Row {
	old := ofOld(all, func(s samples) numbers { return result.Ratios(s.took, all[1].took) })
	return result.NewRow(name, result.Ratio, result.Ratios(all[0].took, all[1].took), old, programs(all)...)
}

// extraRow is ratioRow for the difference, in ms.
func extraRow(name string, all []samples) result.Row {
	old := ofOld(all, func(s samples) numbers { return result.Differences(s.took, all[1].took) })
	return result.NewRow(name, "ms", result.Differences(all[0].took, all[1].took), old, programs(all)...)
}

func ofOld(all []samples, of func(samples) numbers) numbers {
	if len(all) < 3 {
		return nil
	}
	return of(all[2])
}

func programs(all []samples) []result.Program {
	var out []result.Program
	for _, s := range all {
		out = append(out, s.program())
	}
	return out
}

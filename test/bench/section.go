package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"time"

	"github.com/podrun/podrun/test/bench/result"
)

// minRounds is the minimum number of rounds of a section, even if they take longer than its
// limit.
const minRounds = 3

// noLimit is the limit of the sections for which the number of rounds matters most.
const noLimit = time.Hour

// rounds yields the round numbers of a section, starting with 0. After the section's time limit, it
// starts no further rounds, except to complete minRounds.
func (o options) rounds(most int) iter.Seq[int] {
	return func(yield func(int) bool) {
		begin := time.Now()
		for i := 0; i < most && (i < minRounds || time.Since(begin) < o.limit); i++ {
			if !yield(i) {
				return
			}
		}
	}
}

// section is a measurement that the user can select by its name. It returns the rows of the table.
type section struct {
	name string
	// more is true if README.md does not show the figures: the section runs only with -all or -run.
	more    bool
	measure func(context.Context) ([]result.Row, error)
}

// sections returns all sections in the order in which they must run. The peak memory is measured
// first, because the kernel reports, for a process, at least the memory of its parent.
func sections(p *podrun, client *runtimeClient, o options) ([]section, error) {
	var first, more []section
	add := func(s section) {
		if s.more {
			more = append(more, s)
		} else {
			first = append(first, s)
		}
	}
	for _, s := range scenarios(o.image) {
		if s.Memory {
			add(section{"memory, " + s.Name, false, func(ctx context.Context) ([]result.Row, error) { return measureMemory(ctx, p, o, s) }})
		}
	}
	add(section{"binary and start", false, func(ctx context.Context) ([]result.Row, error) { return measureBinary(ctx, p, o) }})
	installed, err := peers(o, p.dir)
	if err != nil {
		return nil, err
	}
	for i, s := range scenarios(o.image) {
		add(section{s.Name, !s.Readme, func(ctx context.Context) ([]result.Row, error) { return measure(ctx, p, client, o, s) }})
		if i == 0 {
			for _, peer := range installed {
				for _, s := range peer.sections(p, o) {
					add(s)
				}
			}
		}
	}
	add(section{"requests", false, func(ctx context.Context) ([]result.Row, error) { return measureRequests(ctx, p, client, o) }})
	add(section{"run", true, func(ctx context.Context) ([]result.Row, error) { return measureRun(ctx, p, client, o) }})
	for _, pods := range []int{1, 20} {
		add(section{fmt.Sprintf("delete of %d", pods), true, func(ctx context.Context) ([]result.Row, error) {
			return measureDelete(ctx, p, client, o, pods)
		}})
	}
	add(section{"volumes", true, func(ctx context.Context) ([]result.Row, error) { return measureVolumes(ctx, p, client, o) }})
	add(section{"images", true, func(ctx context.Context) ([]result.Row, error) { return measureImages(ctx, p, client, o) }})
	add(section{"growth", true, func(ctx context.Context) ([]result.Row, error) { return measureGrowth(ctx, p, o) }})
	return append(first, more...), nil
}

// selected reports whether a section runs.
func (o options) selected(s section) bool {
	if o.match != nil {
		return o.match.MatchString(s.name)
	}
	return o.all || !s.more
}

// measureSections runs the selected sections and adds their rows to the run. It prints the rows of each
// section when the section ends, so that an interrupted bench has printed the completed sections. It
// continues after errors, and returns an error that joins those of all sections.
func measureSections(ctx context.Context, all []section, o options, r *result.Result) error {
	table := newTable(os.Stdout, o)
	var failed []error
	for _, s := range all {
		if !o.selected(s) {
			continue
		}
		begin := time.Now()
		rows, err := s.measure(ctx)
		fmt.Fprintf(os.Stderr, "bench: %s: %.0f s\n", s.name, time.Since(begin).Seconds())
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", s.name, err))
			if ctx.Err() != nil {
				break
			}
			continue
		}
		table.print(rows)
		r.Rows = append(r.Rows, rows...)
	}
	return errors.Join(failed...)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"time"
)

// minRounds is the minimum number of rounds of a section, even if they take longer than its
// limit.
const minRounds = 3

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

// section is a measurement that the user can select by its name. It stores its numbers in the
// report and returns the rows of the table.
type section struct {
	name    string
	measure func(context.Context, *report) ([]row, error)
}

// sections returns all sections in the order in which they must run. The peak memory is measured
// first, because the kernel reports, for a process, at least the memory of its parent.
func sections(p *podrun, client *runtimeClient, o options) ([]section, error) {
	var all []section
	for _, s := range scenarios(o.image) {
		if s.MaxMemory > 0 {
			all = append(all, section{"memory, " + s.Name, func(ctx context.Context, r *report) (_ []row, err error) {
				m := peak{Name: s.Name, max: s.MaxMemory}
				if m.MB, m.floor, err = measureMemory(ctx, p, o, s); err != nil {
					return nil, err
				}
				r.Memory = append(r.Memory, m)
				return []row{m.row()}, nil
			}})
		}
	}
	all = append(all, section{"binary and start", func(ctx context.Context, r *report) ([]row, error) {
		err := measureBinary(ctx, p, &r.Process)
		return r.Process.rows(), err
	}})
	for _, s := range scenarios(o.image) {
		all = append(all, section{s.Name, func(ctx context.Context, r *report) ([]row, error) {
			n, err := measure(ctx, p, client, o, s)
			if err != nil {
				return nil, err
			}
			r.Scenarios = append(r.Scenarios, n)
			return n.rows(), nil
		}})
	}
	differ := func(name string, measure func(context.Context) (*difference, error)) {
		all = append(all, section{name, func(ctx context.Context, r *report) ([]row, error) {
			d, err := measure(ctx)
			if err != nil {
				return nil, err
			}
			r.Differences = append(r.Differences, d)
			return []row{d.row()}, nil
		}})
	}
	installed, err := peers(o, p.dir)
	if err != nil {
		return nil, err
	}
	for _, peer := range installed {
		differ(peer.name, func(ctx context.Context) (*difference, error) { return measurePeer(ctx, p, o, peer) })
	}
	differ("run", func(ctx context.Context) (*difference, error) { return measureRun(ctx, p, client, o) })
	for _, pods := range []int{1, 20} {
		differ(fmt.Sprintf("delete of %d", pods), func(ctx context.Context) (*difference, error) {
			return measureDelete(ctx, p, client, o, pods)
		})
	}
	differ("volumes", func(ctx context.Context) (*difference, error) { return measureVolumes(ctx, p, client, o) })
	return append(all,
		section{"images", func(ctx context.Context, r *report) (_ []row, err error) {
			if r.Images, err = measureImages(ctx, p, client, o); err != nil {
				return nil, err
			}
			return r.Images.rows(), nil
		}},
		section{"growth", func(ctx context.Context, r *report) (_ []row, err error) {
			if r.Growth, err = measureGrowth(ctx, p, o); err != nil {
				return nil, err
			}
			return growthRows(r.Growth), nil
		}},
	), nil
}

// measureSections runs the selected sections. It prints the rows of each section when the section
// ends, so that an interrupted bench has printed the completed sections. It continues after errors,
// and returns an error that joins those of all sections.
func measureSections(ctx context.Context, all []section, o options, r *report) error {
	table := newTable(os.Stdout, o)
	var failed []error
	for _, s := range all {
		if !o.match.MatchString(s.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "bench: %s\n", s.name)
		rows, err := s.measure(ctx, r)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", s.name, err))
			if ctx.Err() != nil {
				break
			}
			continue
		}
		table.print(rows)
	}
	return errors.Join(failed...)
}

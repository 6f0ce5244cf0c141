package podlog

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
)

// Mux writes several logs, each line with its source's prefix: one after the
// other, as kubectl does, or, when they are followed, whole lines as they come.
// A log that cannot be read does not keep the others from being written; the
// error names each. A failure to write ends all.
func Mux(ctx context.Context, out Output, sources []Source, opts Options) error {
	m := NewMerger(out)
	if !opts.Follow {
		var errs []error
		for _, src := range sources {
			err := Stream(ctx, src, m.Output(src.Prefix), opts)
			if fatal(ctx, err) {
				return err
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	return muxFollow(ctx, m, sources, opts)
}

func muxFollow(ctx context.Context, m *Merger, sources []Source, opts Options) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	errs := make([]error, len(sources))
	var group sync.WaitGroup
	for i, src := range sources {
		group.Go(func() {
			errs[i] = Stream(ctx, src, m.Output(src.Prefix), opts)
			if fatal(ctx, errs[i]) {
				cancel(errs[i])
			}
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(errs...)
}

// fatal reports whether an error ends all streams: the context's, or one of the
// output.
func fatal(ctx context.Context, err error) bool {
	var w *writeError
	return err != nil && (ctx.Err() != nil || errors.As(err, &w))
}

// Merger joins the outputs of several streams into one, line by line. It is
// what Mux uses, for those that learn of their sources one after the other.
type Merger struct {
	mu  sync.Mutex
	out Output
}

// NewMerger makes a Merger that writes to out, one Write at a time.
func NewMerger(out Output) *Merger { return &Merger{out: out} }

// Output returns an output for one stream, which puts prefix before each line.
// A line that is not whole is ended, so that another's can follow it.
func (m *Merger) Output(prefix string) Output {
	to := func(w io.Writer) io.Writer {
		if w == nil {
			return nil
		}
		return &prefixer{m: m, w: w, prefix: []byte(prefix)}
	}
	return Output{Stdout: to(m.out.Stdout), Stderr: to(m.out.Stderr)}
}

type prefixer struct {
	m      *Merger
	w      io.Writer
	prefix []byte
}

func (p *prefixer) Write(data []byte) (int, error) {
	out := make([]byte, 0, len(data)+len(data)/32+len(p.prefix)+1)
	for line := range bytes.Lines(data) {
		out = append(append(out, p.prefix...), line...)
	}
	if len(out) > 0 && out[len(out)-1] != '\n' {
		out = append(out, '\n')
	}
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	if _, err := p.w.Write(out); err != nil {
		return 0, err
	}
	return len(data), nil
}

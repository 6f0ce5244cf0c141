package podlog

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
)

// Mux writes several logs, with the prefix of the source before each line. It writes one log after
// the other, as kubectl does. If the logs are followed, it writes each line as soon as the
// container has written it. If Mux cannot read a log, it still writes the others. The error names
// each log that failed. Mux ends if the output cannot be written.
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

// fatal reports whether an error ends all streams. It returns true if the context has ended or the
// output failed.
func fatal(ctx context.Context, err error) bool {
	var w *writeError
	return err != nil && (ctx.Err() != nil || errors.As(err, &w))
}

// Merger merges the outputs of several streams into one, line by line. Mux uses it. A caller that
// does not know all sources at the start can use it directly.
type Merger struct {
	mu  sync.Mutex
	out Output
}

// NewMerger returns a Merger that writes to out, one Write at a time.
func NewMerger(out Output) *Merger { return &Merger{out: out} }

// Output returns an output for one stream, which writes prefix before each line. If a line is
// incomplete, the output ends it with a newline, so that another stream's line can follow. Without a
// prefix, the output is that of one container, and remains unchanged.
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
	out := data
	if len(p.prefix) > 0 {
		out = make([]byte, 0, len(data)+len(data)/32+len(p.prefix)+1)
		for line := range bytes.Lines(data) {
			out = append(append(out, p.prefix...), line...)
		}
		if len(out) > 0 && out[len(out)-1] != '\n' {
			out = append(out, '\n')
		}
	}
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	if _, err := p.w.Write(out); err != nil {
		return 0, err
	}
	return len(data), nil
}

package pods

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/container/podlog"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/access"
)

// logReader prints the logs of containers as they start.
type logReader struct {
	ctx  context.Context
	node *run.Node
	// rotation limits the logs on disk.
	rotation *podlog.Rotator
	merger   *podlog.Merger
	warn     func(error)
	prefix   func(run.Log) string
	// If json is set, it receives each line as a JSON object among podrun's own objects. If it is
	// nil, lines are not changed.
	json io.Writer
	// groups, if not nil, puts the logs into groups of a GitHub workflow; mu protects it.
	groups *logGroups
	mu     sync.Mutex
	binary atomic.Bool // a warning about binary data was sent
	// copies contains functions that return further writers for a log. prefix is the prefix of the
	// log's lines on the terminal. The streams of the returned Output may be nil.
	copies []func(log run.Log, prefix string) podlog.Output
}

// also adds further writers for the logs. They must not fail.
func (l *logReader) also(copies func(log run.Log, prefix string) podlog.Output) {
	l.copies = append(l.copies, copies)
}

// newLogReader returns a reader of the logs of a run's pods. If podrun removes the pods at the end, it
// removes the rotated files as soon as it has printed them.
func newLogReader(ctx context.Context, a *cli.App, node *run.Node, r *cli.Renderer, objects *manifest.Objects, keep bool) (*logReader, error) {
	rotation, err := access.LogRotator(node)
	if err != nil {
		return nil, &problem.Error{Kind: problem.Usage, Err: err}
	}
	if !keep {
		rotation.MaxFiles = 0
	}
	out := podlog.Output{Stdout: a.Raw.Out, Stderr: a.Raw.Err}
	switch {
	case a.Workflow != nil:
		out.Stdout, out.Stderr = a.Workflow.Foreign(), a.Workflow.Foreign()
	case a.Output != "":
		out.Stdout = a.Raw.Err // stdout contains the summary
	}
	containers := 0
	for _, p := range objects.Pods {
		containers += len(p.Object.Spec.InitContainers) + len(p.Object.Spec.Containers)
	}
	prefix := func(run.Log) string { return "" }
	switch {
	case len(objects.Pods) > 1:
		prefix = func(l run.Log) string { return "[" + l.Pod.Name + "/" + l.Container + "] " }
	case containers > 1:
		prefix = func(l run.Log) string { return "[" + l.Container + "] " }
	}
	// The logs are read to their ends even after a signal has canceled ctx, because
	// containers write until they are stopped.
	l := &logReader{ctx: context.WithoutCancel(ctx), node: node, rotation: rotation, merger: podlog.NewMerger(out), prefix: prefix,
		warn: func(err error) { r.Warn(problem.List{{Message: err.Error(), Warning: true}}) }}
	if a.JSONMessages {
		l.json = a.Raw.Err
	}
	if a.Workflow != nil {
		l.groups = newLogGroups(a.Workflow, objects)
	}
	return l, nil
}

// copied adds the further writers for a container's log to the given output.
func (l *logReader) copied(log run.Log, out podlog.Output) podlog.Output {
	for _, copies := range l.copies {
		further := copies(log, l.prefix(log))
		if further.Stdout != nil {
			out.Stdout, out.Stderr = io.MultiWriter(out.Stdout, further.Stdout), io.MultiWriter(out.Stderr, further.Stderr)
		}
	}
	return out
}

// printed returns the streams of podrun to which a container's log is printed.
func (l *logReader) printed(log run.Log) podlog.Output {
	if l.json == nil {
		out := l.merger.Output(l.prefix(log))
		return podlog.Output{Stdout: l.noticeBinary(log, out.Stdout), Stderr: l.noticeBinary(log, out.Stderr)}
	}
	to := func(stream string) io.Writer {
		return &logLines{to: l.json, of: logLine{Namespace: log.Pod.Namespace, Pod: log.Pod.Name, Container: log.Container, Stream: stream}}
	}
	return podlog.Output{Stdout: to("stdout"), Stderr: to("stderr")}
}

// noticeBinary returns a writer that sends one warning for the whole run if the output of a container is
// not text: the log, which podrun prints, may differ from it.
func (l *logReader) noticeBinary(log run.Log, to io.Writer) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		if !l.binary.Load() && isBinary(p) && l.binary.CompareAndSwap(false, true) {
			l.warn(fmt.Errorf("container %s writes binary data: podrun prints its log, in which the runtime may have omitted carriage returns; "+
				"to copy data exactly, use 'podrun exec' or 'podrun cp', or 'podrun run -i' with a program that reads standard input before it writes", log.Container))
		}
		return to.Write(p)
	})
}

// isBinary reports whether output contains a NUL or is not UTF-8. Its ends may be within a character.
func isBinary(p []byte) bool {
	if bytes.IndexByte(p, 0) >= 0 {
		return true
	}
	for n := 0; n < utf8.UTFMax-1 && len(p) > 0 && !utf8.RuneStart(p[0]); n++ {
		p = p[1:]
	}
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if tail := p[len(p)-n:]; utf8.RuneStart(tail[0]) && !utf8.FullRune(tail) {
			p = p[:len(p)-n]
			break
		}
	}
	return !utf8.Valid(p)
}

// logLine is a line of a container in the JSON lines on stderr.
type logLine struct {
	Log       string `json:"log"`
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container"`
	Stream    string `json:"stream"` // stdout or stderr
}

// logLines writes each line of a container as a JSON object: a container may itself write JSON
// that looks like an error or event of podrun. Bytes that are not UTF-8 become U+FFFD.
type logLines struct {
	to io.Writer
	of logLine
}

func (l *logLines) Write(data []byte) (int, error) {
	var out []byte
	for line := range bytes.Lines(data) {
		l.of.Log = string(bytes.TrimSuffix(line, []byte("\n")))
		object, err := json.Marshal(l.of)
		if err != nil {
			return 0, err
		}
		out = append(append(out, view.EscapeJSON(object)...), '\n')
	}
	if _, err := l.to.Write(out); err != nil {
		return 0, err
	}
	return len(data), nil
}

// start reads a container's log until the container has exited. The caller must call the
// returned function when all containers have stopped. The function waits until the log has been
// read.
func (l *logReader) start(log run.Log, exited <-chan struct{}) func() {
	return l.follow(log, exited, l.copied(log, l.printed(log)))
}

// follow is start for the given output.
func (l *logReader) follow(log run.Log, exited <-chan struct{}, out podlog.Output) func() {
	var wg sync.WaitGroup
	last := make(chan struct{})
	endGroup := l.beginGroup(log)
	wg.Go(func() {
		defer endGroup()
		err := podlog.Stream(l.ctx, podlog.Source{
			Container: log.Container, Path: log.Path, State: string(log.State), Exited: exited, Last: last,
			Warn: l.warn, Rotate: l.rotator(log), RotateSize: l.rotation.MaxSize,
		}, out, podlog.Options{Follow: true})
		if err != nil {
			l.warn(fmt.Errorf("log of %s: %w", log.Container, err))
		}
	})
	return func() {
		close(last)
		wg.Wait()
	}
}

// rotator returns the function that rotates a log which has been read, or nil if the settings disable
// rotation.
func (l *logReader) rotator(log run.Log) func(context.Context) error {
	if l.rotation.MaxSize <= 0 {
		return nil
	}
	return func(ctx context.Context) error {
		return l.rotation.RotateAll(ctx, []podlog.Running{{ID: log.ID, Path: log.Path}}, l.node.Client.ReopenContainerLog)
	}
}

// beginGroup begins the group of a container's log, and returns the function that ends it.
func (l *logReader) beginGroup(log run.Log) (end func()) {
	if l.groups == nil {
		return func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.groups.begin(log)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.groups.end(g)
	}
}

package pods

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/container/podlog"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/access"
)

// interact changes the pod for -i and -t like `kubectl run`. It returns the name of the
// container to which podrun must attach, or "" without these flags.
func (f *runFlags) interact(c *cobra.Command, a *cli.App, objects *manifest.Objects) (string, error) {
	if !f.stdin && !f.tty {
		return "", nil
	}
	if len(objects.Pods) != 1 {
		return "", grammar.Usage(c, fmt.Errorf("-i and -t require exactly one pod, but the input has %d", len(objects.Pods)))
	}
	if f.tty && f.stdin && a.StdinTerminal() == nil {
		fmt.Fprintln(a.Streams.Err, cli.IgnoredTTY)
		f.tty = false
	}
	pod := objects.Pods[0].Object.DeepCopy()
	objects.Pods[0].Object = pod
	name, err := access.DefaultContainer(pod)
	if err != nil {
		return "", grammar.Usage(c, errors.Join(errors.New("-i"), err))
	}
	for i := range pod.Spec.Containers {
		if container := &pod.Spec.Containers[i]; container.Name == name {
			container.Stdin = f.stdin
			container.StdinOnce = f.stdin
			container.TTY = f.tty
		}
	}
	return name, nil
}

// unconnectedInput returns a warning for each container that may read standard input: without -i, it
// waits for input for ever.
func unconnectedInput(objects *manifest.Objects) (out problem.List) {
	for _, p := range objects.Pods {
		for _, list := range [][]corev1.Container{p.Object.Spec.InitContainers, p.Object.Spec.Containers} {
			for _, c := range list {
				if c.Stdin {
					out = append(out, problem.Problem{Object: "pod " + p.Object.Namespace + "/" + p.Object.Name + ": container " + c.Name, Warning: true,
						Message: "has stdin: true, but podrun passes no input to it", Hint: "add -i, or remove stdin from the manifest"})
				}
			}
		}
	}
	return out
}

// attacher attaches to one container and prints the logs of the others.
type attacher struct {
	*logReader
	app       *cli.App
	container string
	stdin     bool
	tty       bool
	quiet     bool
}

// start is logReader.start for one run of a container. With a terminal, it prints the attached
// streams. Otherwise it prints the log and then, if it prints the output of only one container, the
// attached streams (exactOutput).
func (i *attacher) start(log run.Log, exited <-chan struct{}) func() {
	if log.Container != i.container {
		if i.tty {
			return i.limit(log, exited) // other output would disturb the terminal
		}
		return i.logReader.start(log, exited)
	}
	ctx, cancel := context.WithCancel(i.ctx)
	var wg sync.WaitGroup
	if !i.tty {
		exact := i.exactOutput(log, exited)
		end := i.follow(log, exited, i.copied(log, exact.logOutput()))
		wg.Go(func() { i.attach(ctx, log, exact) })
		return func() {
			// The attached streams end with the container, but the reader of the output may be slow.
			wg.Wait()
			cancel()
			end()
			exact.finish()
		}
	}
	end := i.limit(log, exited)
	wg.Go(func() {
		// If it was too late to attach, the log contains the output.
		if i.attachTerminal(ctx, log) {
			i.logReader.start(log, exited)()
		}
	})
	return func() {
		cancel()
		wg.Wait()
		end()
	}
}

// limit rotates a log that podrun does not print.
func (i *attacher) limit(log run.Log, exited <-chan struct{}) func() {
	return i.follow(log, exited, podlog.Output{})
}

// exactOutput returns the output of the container. Lines with a prefix are always those of the log.
func (i *attacher) exactOutput(log run.Log, exited <-chan struct{}) *exactOutput {
	out := podlog.Output{Stdout: i.untilStopped(log, exited, i.app.Raw.Out), Stderr: i.untilStopped(log, exited, i.app.Raw.Err)}
	exact := newExactOutput(out, i.printed(log))
	if i.prefix(log) != "" || i.json != nil {
		exact.useLog()
	}
	return exact
}

// attach attaches until the container exits.
func (i *attacher) attach(ctx context.Context, log run.Log, exact *exactOutput) {
	out := exact.attachedOutput()
	streams := access.Streams{Out: out.Stdout, Err: out.Stderr}
	if i.stdin {
		// The first read shows that podrun is attached.
		decide := sync.OnceFunc(exact.decide)
		streams.In = readerFunc(func(p []byte) (int, error) { decide(); return i.app.Raw.In.Read(p) })
	}
	if err := access.Attach(ctx, i.node, access.Target{Pod: log.Pod, Container: log.Container, ID: log.ID}, streams); err != nil {
		exact.useLog()
		i.reportAttach(ctx, log, err)
	}
}

// reportAttach sends a warning if podrun could not attach, or the connection failed.
func (i *attacher) reportAttach(ctx context.Context, log run.Log, err error) (failed bool) {
	if ctx.Err() != nil || errors.Is(err, access.ErrEnded) || errors.Is(err, access.ErrRemoved) {
		return false
	}
	i.warn(fmt.Errorf("attach to container %s: %w", log.Container, err))
	return true
}

// readerFunc is a function that implements io.Reader.
type readerFunc func([]byte) (int, error)

// Read implements io.Reader.
func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// endingInterval is how often podrun checks, during a write to a slow output, whether an operation is
// stopping the pod.
const endingInterval = time.Second

// untilStopped returns a writer that discards the output when an operation stops the running container
// while no process reads the output. Otherwise the runtime would not report that the container has
// exited, and the operation would wait for the reader.
func (i *attacher) untilStopped(log run.Log, exited <-chan struct{}, to io.Writer) io.Writer {
	discard := false
	return writerFunc(func(p []byte) (int, error) {
		if discard {
			return len(p), nil
		}
		written, copied := make(chan error, 1), bytes.Clone(p)
		go func() { _, err := to.Write(copied); written <- err }()
		check := time.NewTicker(endingInterval)
		defer check.Stop()
		for {
			select {
			case err := <-written:
				return len(p), err
			case <-exited:
				return len(p), <-written
			case <-check.C:
				if discard = access.Ending(i.node, log.Pod); discard {
					return len(p), nil
				}
			}
		}
	})
}

// attachTerminal attaches until the container exits. It returns true if the terminal shows none of the
// container's output, because the container exited or wrote its output before podrun attached.
func (i *attacher) attachTerminal(ctx context.Context, log run.Log) (missed bool) {
	streams, restore, err := i.app.StreamsOf(ctx, i.stdin, i.tty)
	defer restore()
	joined := &joinedOutput{to: streams.Out, before: i.logged(ctx, log), log: func() []byte { return i.logged(ctx, log) }}
	streams.Out = joined
	if i.stdin && !i.quiet {
		fmt.Fprintln(i.app.Streams.Err, cli.PromptHint)
	}
	if err == nil {
		err = access.Attach(ctx, i.node, access.Target{Pod: log.Pod, Container: log.Container, ID: log.ID}, streams)
	}
	joined.join()
	if err != nil && i.reportAttach(ctx, log, err) {
		return false
	}
	return !joined.attached()
}

// maxJoined is the maximum number of bytes of the log that are written before attached output.
const maxJoined = 1 << 20

// logged returns the lines that the log of a container has so far. It ends them as a terminal
// does, with "\r\n": containerd's log contains only the newline. It returns nil if the log
// cannot be read.
func (i *attacher) logged(ctx context.Context, log run.Log) []byte {
	var lines bytes.Buffer
	_ = podlog.Stream(ctx, podlog.Source{Container: log.Container, Path: log.Path}, podlog.Output{Stdout: &lines, Stderr: &lines},
		// If the log cannot be read, podrun shows only the attached output.
		podlog.Options{LimitBytes: new(int64(maxJoined))})
	return bytes.ReplaceAll(bytes.ReplaceAll(lines.Bytes(), []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n"))
}

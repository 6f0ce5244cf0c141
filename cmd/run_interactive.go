package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/container/podlog"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
)

// interact changes the pod for -i and -t like `kubectl run`. It returns the name of the
// container to which podrun must attach, or "" without these flags.
func (f *runFlags) interact(c *cobra.Command, a *app, objects *manifest.Objects) (string, error) {
	if !f.stdin && !f.tty {
		return "", nil
	}
	if len(objects.Pods) != 1 {
		return "", usage(c, fmt.Errorf("-i and -t require exactly one pod, but the input has %d", len(objects.Pods)))
	}
	if f.tty && f.stdin && a.stdinTerminal() == nil {
		fmt.Fprintln(a.streams.Err, ignoredTTY)
		f.tty = false
	}
	pod := objects.Pods[0].Object.DeepCopy()
	objects.Pods[0].Object = pod
	name, err := run.DefaultContainer(pod)
	if err != nil {
		return "", usage(c, errors.Join(errors.New("-i"), err))
	}
	for i := range pod.Spec.Containers {
		if container := &pod.Spec.Containers[i]; container.Name == name {
			container.Stdin, container.StdinOnce, container.TTY = f.stdin, f.stdin, f.tty
		}
	}
	return name, nil
}

// attacher attaches to one container and prints the logs of the others.
type attacher struct {
	*logReader
	app       *app
	container string
	stdin     bool
	tty       bool
	quiet     bool
}

// start is logReader.start for one run of a container. With a terminal, it reads the output from
// the attached streams. Otherwise it reads the log, which also has the output from before podrun
// attached.
func (i *attacher) start(log run.Log, exited <-chan struct{}) func() {
	if log.Container != i.container {
		if i.tty {
			return func() {} // other output would disturb the terminal
		}
		return i.logReader.start(log, exited)
	}
	end := func() {}
	if !i.tty {
		end = i.logReader.start(log, exited)
	}
	ctx, cancel := context.WithCancel(i.ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		// If it was too late to attach, the log contains the output.
		if i.attach(ctx, log) {
			i.logReader.start(log, exited)()
		}
	})
	return func() {
		cancel()
		wg.Wait()
		end()
	}
}

// attach attaches until the container exits. It returns true if the terminal shows none of the
// container's output, because the container exited or wrote its output before podrun attached.
func (i *attacher) attach(ctx context.Context, log run.Log) (missed bool) {
	streams, restore, err := i.app.streamsOf(ctx, i.stdin, i.tty)
	defer restore()
	joined := &joinedOutput{to: streams.Out, log: func() []byte { return i.logged(ctx, log) }}
	if i.tty {
		joined.before = i.logged(ctx, log)
		streams.Out = joined
	} else {
		streams.Out, streams.Err = io.Discard, io.Discard
	}
	if i.tty && i.stdin && !i.quiet {
		fmt.Fprintln(i.app.streams.Err, promptHint)
	}
	if err == nil {
		err = i.engine.Attach(ctx, run.ExecTarget{Pod: log.Pod, Container: log.Container, ID: log.ID}, streams)
	}
	joined.join()
	ended := errors.Is(err, run.ErrEnded) || errors.Is(err, run.ErrRemoved)
	if err != nil && ctx.Err() == nil && !ended {
		i.warn(fmt.Errorf("attach to container %s: %w", log.Container, err))
		return false
	}
	return i.tty && !joined.attached()
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

package crash

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
)

// source is the pod's file in the manifest directory of `podrun serve`.
func (h *host) source() string { return filepath.Join(h.dir, "manifests", "pod.yaml") }

// do runs a command that the sweep kills. Because serve does not exit by itself, do waits until the
// pod is running, and changes or removes the pod's file. It then waits until serve has restarted
// the container with the other image or has deleted the pod, and terminates serve with SIGTERM.
func (o *outside) do(h *host, command string, env []string, args ...string) result {
	command = strings.TrimSuffix(command, legacy)
	switch {
	case command == "update":
		if err := o.noteContainer(context.Background(), h); err != nil {
			return result{code: -1, out: err.Error()}
		}
		fallthrough
	case args[0] != "serve":
		return h.podrun(env, args...)
	}
	return h.during(env, func(ctx context.Context) {
		if until(ctx, func() error { return o.runsNow(ctx, h.pod) }) != nil {
			return // the command was killed
		}
		if h.rollback {
			o.rollBack(ctx, h)
			return
		}
		if updates(command) {
			if o.noteContainer(ctx, h) == nil && os.Rename(filepath.Join(h.dir, variantImage+".yaml"), h.source()) == nil {
				_ = until(ctx, func() error { return o.restarted(ctx, h) })
			}
			return
		}
		if os.Remove(h.source()) == nil {
			_ = until(ctx, func() error { return o.gone(ctx, h) })
		}
	}, args...)
}

// noteContainer records the container that a command is about to restart.
func (o *outside) noteContainer(ctx context.Context, h *host) error {
	running, err := o.running(ctx, h.pod)
	if err == nil {
		h.was = running.Id
	}
	return err
}

// runsAsRequested checks that the pod runs with the image that was requested last, and continues to run. It
// also accepts a pod that failed because of the kill (startLost).
func (o *outside) runsAsRequested(ctx context.Context, h *host) error {
	if h.scaled > 0 {
		return o.runsAsScaled(ctx, h)
	}
	if h.rollback {
		return o.rolledBack(ctx, h)
	}
	err := o.restarted(ctx, h)
	if err == nil {
		err = o.runs(ctx, h.pod)
	}
	if err == nil {
		err = o.mountsAsDefined(ctx, h, h.pod)
	}
	if err == nil && h.service {
		err = until(ctx, h.named)
	}
	if err != nil && o.startLost(ctx, h) {
		return nil
	}
	return err
}

// startLost reports whether the pod has failed because the kill canceled the start of a container. The
// restart policy of this container is Never, and its process may have run (cri.StartCanceled). Like the
// kubelet, podrun does not start such a container again.
func (o *outside) startLost(ctx context.Context, h *host) bool {
	containers, err := o.containers(ctx, h.pod)
	if err != nil || !h.never {
		return false
	}
	lost := slices.ContainsFunc(containers, func(c *runtimeapi.Container) bool {
		r, err := o.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: c.Id})
		s := r.GetStatus()
		return err == nil && c.Id != h.was && s.Reason == "StartError" && !cri.StartCanceled(s) &&
			strings.HasPrefix(s.Message, "failed to start containerd task ") && strings.HasSuffix(s.Message, ": context canceled: unknown")
	})
	return lost && strings.TrimSpace(h.podrun(nil, "get", "pod", h.pod, "-o", "jsonpath={.status.phase}").out) == "Failed"
}

// restarted checks that a container other than the one that noteContainer recorded, if any, is
// running now.
func (o *outside) restarted(ctx context.Context, h *host) error {
	running, err := o.running(ctx, h.pod)
	if err == nil && running.Id == h.was {
		err = errors.New("the container with the earlier image runs")
	}
	return err
}

// serveAgain runs `podrun serve` after a previous one was killed, until the pod matches its file
// and remains so. If the file exists, the pod must run; if the file was removed, no leftovers
// may remain.
func (o *outside) serveAgain(h *host) result {
	notify := fmt.Sprintf("@podrun-crash-%d-%s", os.Getpid(), h.pod)
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: notify, Net: "unixgram"})
	if err != nil {
		return result{code: -1, out: err.Error()}
	}
	defer conn.Close()
	if err := os.MkdirAll(filepath.Dir(h.source()), 0o755); err != nil {
		return result{code: -1, out: err.Error()}
	}
	var unmet error
	r := h.during([]string{"NOTIFY_SOCKET=" + notify}, func(ctx context.Context) {
		if unmet = awaitReady(ctx, conn); unmet != nil {
			return
		}
		go discard(conn)
		unmet = until(ctx, func() error {
			if h.requested() {
				return o.runsAsRequested(ctx, h)
			}
			return o.gone(ctx, h)
		})
	}, "serve", filepath.Dir(h.source()))
	if unmet != nil && r.code == 0 {
		r.code, r.out = -1, fmt.Sprintf("%s\nthe pod is not as its file says (it exists: %v): %v", last(r.out, 2), h.requested(), unmet)
	}
	return r
}

// awaitReady waits until serve has reported to its service manager that it supervises every
// pod. If serve is terminated before that, it may not have acted yet.
func awaitReady(ctx context.Context, conn *net.UnixConn) error {
	ctx, cancel := context.WithTimeout(ctx, recovery)
	defer cancel()
	// Read returns the error
	defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Now()) })()
	message := make([]byte, 4096)
	for {
		n, err := conn.Read(message)
		if err != nil {
			return fmt.Errorf("serve has not become ready: %w", err)
		}
		if slices.Contains(strings.Split(string(message[:n]), "\n"), "READY=1") {
			return nil
		}
	}
}

// discard reads further messages of serve until the socket is closed. Otherwise serve would block
// on each message after the tenth.
func discard(conn *net.UnixConn) {
	message := make([]byte, 4096)
	for {
		if _, err := conn.Read(message); err != nil {
			return
		}
	}
}

// requested reports whether the pod must run: its file exists, or a command has applied its Deployment.
func (h *host) requested() bool {
	if h.scaled > 0 {
		return true
	}
	_, err := os.Stat(h.source())
	return err == nil
}

// gone checks that neither the runtime nor podrun has an object of the pod, nor podrun its Service. It ignores a directory
// without a checkpoint, which `podrun gc` removes, as serve does every 5 minutes.
func (o *outside) gone(ctx context.Context, h *host) error {
	sandboxes, _, err := o.sandboxes(ctx, h.pod)
	if err != nil {
		return err
	}
	containers, err := o.containers(ctx, h.pod)
	if err != nil {
		return err
	}
	checkpoints, err := filepath.Glob(filepath.Join(h.dir, "root", "pods", "*", "pod.yaml"))
	if err == nil && len(sandboxes)+len(containers)+len(checkpoints) > 0 {
		err = fmt.Errorf("%d sandboxes, %d containers and %d checkpoints are left", len(sandboxes), len(containers), len(checkpoints))
	}
	if _, missing := os.Stat(filepath.Join(h.dir, "root", "services", "crash_"+h.pod+withService)); err == nil && missing == nil {
		err = errors.New("the Service is left")
	}
	return err
}

// recovery is the time limit for serve to bring a pod into the requested state after a kill, on a
// busy host.
const recovery = 5 * time.Minute

// until repeats a check until it succeeds, for at most the time limit recovery.
func until(ctx context.Context, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, recovery)
	defer cancel()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

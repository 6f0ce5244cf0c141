package rig

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
)

// Count counts a string in a list.
func Count(list []string, what string) int {
	n := 0
	for _, s := range list {
		if s == what {
			n++
		}
	}
	return n
}

// WantChanges checks the calls so far that changed objects of the runtime, and forgets all calls.
func WantChanges(t testing.TB, rt *critest.Runtime, want ...string) {
	t.Helper()
	if got := rt.Changes(); !slices.Equal(got, want) {
		t.Errorf("calls\n got %q\nwant %q", got, want)
	}
	rt.ForgetCalls()
}

// CallsTo counts the calls of a method.
func (h *Host) CallsTo(method string) int { return len(h.Runtime.CallNames(method)) }

// OneReadySandbox checks that exactly one sandbox is ready (containerd#12438).
func (h *Host) OneReadySandbox() {
	h.T.Helper()
	ready := 0
	for _, s := range h.Runtime.Sandboxes() {
		if s.Ready {
			ready++
		}
	}
	if ready != 1 {
		h.T.Errorf("%d sandboxes are ready", ready)
	}
}

// WantMounts checks that everything that podrun creates for the mounts of a container exists. Unlike
// a container runtime, the fake does not create a directory for a missing path.
func WantMounts(t testing.TB, root string, mounts []*runtimeapi.Mount) {
	t.Helper()
	for _, m := range mounts {
		if !strings.HasPrefix(m.GetHostPath(), root+"/") {
			continue
		}
		info, err := os.Lstat(m.GetHostPath())
		switch file := m.GetContainerPath() == "/etc/hosts" || m.GetContainerPath() == "/dev/termination-log"; {
		case err != nil:
			t.Errorf("mount %s: %v", m.GetContainerPath(), err)
		case file != info.Mode().IsRegular():
			t.Errorf("mount %s: %s has the mode %v", m.GetContainerPath(), m.GetHostPath(), info.Mode())
		}
	}
}

// MountsAreSetUp checks the mounts of all running containers, and the hosts file that they mount.
func (h *Host) MountsAreSetUp() {
	h.T.Helper()
	for _, c := range h.Runtime.Containers() {
		if c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		WantMounts(h.T, h.Settings.RootDir, c.Config.GetMounts())
		for _, m := range c.Config.GetMounts() {
			if text, err := os.ReadFile(m.GetHostPath()); m.GetContainerPath() == "/etc/hosts" && (err != nil || !strings.Contains(string(text), "127.0.0.1\tlocalhost\n")) {
				h.T.Errorf("the hosts file of %s: %q, %v", c.Name, text, err)
			}
		}
	}
}

// WantRunning checks that the container runs in the only sandbox.
func (h *Host) WantRunning(name string) {
	h.T.Helper()
	if c, ok := h.Runtime.Container(name); !ok || c.State != 1 {
		h.T.Errorf("container %s does not run", name)
	}
	h.OneReadySandbox()
}

// WantHint checks the hint of the first problem.Error in an error.
func WantHint(t testing.TB, err error, text string) {
	t.Helper()
	e, ok := errors.AsType[*problem.Error](err)
	if !ok || !strings.Contains(e.Hint, text) {
		t.Errorf("hint without %q: %+v", text, e)
	}
}

// KindOf returns the kind of the first problem.Error in an error; or "" if there is none.
func KindOf(err error) problem.Kind {
	if e, ok := errors.AsType[*problem.Error](err); ok {
		return e.Kind
	}
	return ""
}

// WantErr checks the kind and the text of an error.
func WantErr(t testing.TB, err error, kind problem.Kind, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	if got := KindOf(err); got != kind {
		t.Errorf("kind %q, want %q: %v", got, kind, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error without %q: %v", w, err)
		}
	}
}

// MountedAt returns the host's directory that is mounted at a path in a container.
func MountedAt(t *testing.T, c critest.Container, path string) string {
	t.Helper()
	for _, m := range c.Config.GetMounts() {
		if m.GetContainerPath() == path {
			return m.GetHostPath()
		}
	}
	t.Fatalf("nothing is mounted at %s", path)
	return ""
}

// Has returns a function that reports whether a container has this name.
func (h *Host) Has(name string) func() bool {
	return func() bool {
		_, ok := h.Runtime.Container(name)
		return ok
	}
}

// Package rig is a host for tests of the engine and of podrun serve, on the fake runtime of
// cri/critest:
//
//   - New returns a host. Its methods run operations as a podrun process does (Apply, Delete, …) and
//     check their outcome (NothingLeft, WantRunning, …).
//   - Serve runs a test in virtual time, on a host with a supervisor whose manifest directory the test
//     writes.
//   - KillAt and KillLate run a podrun process and kill it in a call of the runtime.
//
// A package of tests calls Main in its TestMain. Its tests require root, because cgroups, mounts and
// files are real.
package rig

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/treetest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/test/ring"
)

// Host is a host for tests of the engine. It has a fake runtime, separate directories and a
// separate cgroup root. Its cgroups are real.
type Host struct {
	T        testing.TB
	Runtime  *critest.Runtime
	Settings nodeconfig.Settings
	KeepPods bool // API keeps the pods
	// a client of a socket of the runtime; if it is nil, the engine uses the runtime's own client
	Client       *cri.Client
	RepairImages func(ctx context.Context, since time.Time) bool // Node.RepairImages

	mu       sync.Mutex
	events   []event.Event
	warnings []string
}

// New returns a host with the images app, web, db and setup of registry.example, each in the versions 1
// and 2. The test fails if objects of the runtime remain at its end.
func New(t testing.TB, opts ...critest.Option) *Host {
	t.Helper()
	ring.RequireRoot(t) // it creates cgroups and mounts
	h := &Host{T: t, Runtime: critest.ForTest(t, opts...), Settings: settingsBelow(treetest.MemoryDir(t))}
	for _, name := range []string{"app", "web", "db", "setup"} {
		h.Runtime.AddImage(critest.Image{Name: "registry.example/" + name + ":1", Entrypoint: []string{"/server"}})
		h.Runtime.AddImage(critest.Image{Name: "registry.example/" + name + ":2", Entrypoint: []string{"/server"}})
	}
	t.Cleanup(func() { RemoveCgroupRoot(t, h.Settings.CgroupRoot) })
	return h
}

// settingsBelow returns the settings of a host below a directory.
func settingsBelow(dir string) nodeconfig.Settings {
	s := nodeconfig.Default()
	s.RootDir = filepath.Join(dir, "root")
	s.PodLogsDir = filepath.Join(dir, "logs")
	s.ContainerLogsDir = filepath.Join(dir, "links")
	s.CgroupRoot = "/podrun-ut-" + store.RandomHex(6)
	s.HostnameOverride = "node-a"
	s.RegistryPullQPS = 0
	// These tests must not depend on the disk of this machine.
	s.EvictionHard = nil
	return s
}

// CgroupsOf lists the directories of a cgroup root in all hierarchies.
func CgroupsOf(root string) []string {
	var found []string
	for _, pattern := range []string{"/sys/fs/cgroup" + root, "/sys/fs/cgroup/*" + root} {
		dirs, err := filepath.Glob(pattern)
		if err != nil {
			panic(err)
		}
		found = append(found, dirs...)
	}
	return found
}

// RemoveCgroupRoot removes the leftovers in the cgroup root of a test that failed or kept its pods.
func RemoveCgroupRoot(t testing.TB, root string) {
	for _, dir := range CgroupsOf(root) {
		var all []string
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				all = append(all, path)
			}
			return err
		})
		for _, d := range slices.Backward(all) {
			err = errors.Join(err, os.Remove(d))
		}
		if err != nil {
			t.Errorf("remove %s: %v", dir, err)
		}
	}
}

// Engine returns another podrun process on the host.
func (h *Host) Engine() *run.Node {
	client := h.Client
	if client == nil {
		client = h.Runtime.Client()
	}
	return &node.Node{
		Client: client, Settings: h.Settings, Invocation: run.NewInvocation(), Command: "podrun test", RepairImages: h.RepairImages,
		Emit: func(e event.Event) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.events = append(h.events, e)
		},
		Warn: func(l problem.List) {
			h.mu.Lock()
			defer h.mu.Unlock()
			for _, p := range l {
				h.warnings = append(h.warnings, p.Message)
			}
		},
	}
}

// Dial serves the runtime on a socket until the end of the test, and returns a client of the socket.
// Only on a socket does the fake runtime serve containerd's own services.
func (h *Host) Dial() *cri.Client {
	h.T.Helper()
	socket := filepath.Join(h.T.TempDir(), "s")
	stop, err := h.Runtime.Serve(socket)
	if err != nil {
		h.T.Fatal(err)
	}
	h.T.Cleanup(stop)
	client, err := cri.Dial("unix://"+socket, "", time.Minute)
	if err != nil {
		h.T.Fatal(err)
	}
	h.T.Cleanup(func() { client.Close() })
	return client
}

// Layout returns the paths of podrun's files on the host.
func (h *Host) Layout() identity.Layout { return h.Settings.Layout() }

// Outage makes the runtime unavailable until the returned function is called.
func (h *Host) Outage() (end func()) {
	var ends []func()
	for _, method := range Methods {
		ends = append(ends, h.Runtime.Fault(method, critest.Fault{When: critest.Before}))
	}
	return func() {
		for _, e := range ends {
			e()
		}
	}
}

// Methods are the methods of the runtime that podrun calls.
var Methods = []string{"Version", "Status", "RuntimeConfig", "RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "PodSandboxStatus", "ListPodSandbox",
	"CreateContainer", "StartContainer", "StopContainer", "RemoveContainer", "ListContainers", "ContainerStatus", "ExecSync", "UpdateContainerResources",
	"ImageStatus", "PullImage", "ListImages", "RemoveImage", "ReopenContainerLog"}

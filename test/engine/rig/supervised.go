package rig

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/serve"
	"github.com/podrun/podrun/serve/supervisor"
)

// CommandsAfter is how long a supervisor in these tests may take to detect the effect of a command.
// Without StateChanges, it polls every 2 s.
const CommandsAfter = 5 * time.Second

// Supervised is a host with a supervisor.
type Supervised struct {
	*Host
	Files      *Manifests
	Supervisor *supervisor.Supervisor
	// Configure changes the options of each supervisor before it starts; it may be nil.
	Configure func(*run.Node, *supervisor.Options)
	// ExitsWithin is how long a supervisor may take to exit; 0 means one second. A supervisor waits some seconds for the answer to
	// a call that may have an effect.
	ExitsWithin time.Duration

	stop func() // stops the supervisor; nil if it is stopped
}

// NewSupervised returns a host with an empty manifest directory, on which no supervisor runs yet.
func NewSupervised(t testing.TB, opts ...critest.Option) *Supervised {
	return &Supervised{Host: New(t, opts...), Files: NewManifests(t, ManifestDir)}
}

// ManifestDir is the manifest directory of NewSupervised.
const ManifestDir = "/etc/podrun/manifests"

// File returns the path of a manifest file.
func File(name string) string { return filepath.Join(ManifestDir, name+".yaml") }

// Serve runs a test in a bubble, with a supervisor of one directory. At the end, it removes
// the files, and checks that nothing remains.
func Serve(t *testing.T, test func(t *testing.T, s *Supervised), opts ...critest.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		NewSupervised(t, opts...).run(t, test)
	})
}

// ServeWithoutCgroups is Serve without cgroups, which take most of the time of a test.
func ServeWithoutCgroups(t *testing.T, test func(t *testing.T, s *Supervised)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := NewSupervised(t)
		s.Settings.CgroupsPerQOS = false
		s.run(t, test)
	})
}

func (s *Supervised) run(t *testing.T, test func(t *testing.T, s *Supervised)) {
	s.Start()
	test(t, s)
	s.Finish()
}

// Start starts a supervisor, which acts like a separate process.
func (s *Supervised) Start() {
	s.T.Helper()
	e := s.Engine()
	ready := make(chan struct{})
	s.Files.origin = serve.Origins(e.Layout())
	o := s.Files.Options()
	o.Ready = func() { close(ready) }
	if s.Configure != nil {
		s.Configure(e, &o)
	}
	s.Supervisor = supervisor.New(e, o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Supervisor.Run(ctx) }()
	select {
	case <-ready:
	case err := <-done:
		s.T.Fatalf("serve: %v", err)
	}
	// This stops the supervisor if the test fails before it calls End.
	s.T.Cleanup(cancel)
	s.stop = func() {
		s.T.Helper()
		cancel()
		begun := time.Now()
		if err := <-done; err != nil {
			s.T.Errorf("serve: %v", err)
		}
		if took := time.Since(begun); took > max(s.ExitsWithin, time.Second) {
			s.T.Errorf("serve took %s to exit", took)
		}
		s.stop = nil
	}
}

// End stops the supervisor.
func (s *Supervised) End() {
	s.T.Helper()
	s.stop()
}

// Stopped reports whether no supervisor runs.
func (s *Supervised) Stopped() bool { return s.stop == nil }

// Restart stops the supervisor and starts another one.
func (s *Supervised) Restart() {
	s.T.Helper()
	s.End()
	s.Start()
}

// Finish removes all files and then the pods of commands, stops the supervisor, and checks that
// nothing remains.
func (s *Supervised) Finish() {
	s.T.Helper()
	for _, path := range s.paths() {
		s.Files.Remove(path)
	}
	if s.Stopped() {
		s.Start()
	}
	time.Sleep(2 * time.Minute)
	s.Delete(run.DeleteOptions{})
	time.Sleep(time.Minute)
	if sum := s.Supervisor.Summary(); len(sum.Pods) > 0 {
		s.T.Errorf("supervised without a pod: %s", sum)
	}
	s.End()
	s.NothingLeft()
	s.NoSourceLeft()
}

func (s *Supervised) paths() []string {
	s.Files.mu.Lock()
	defer s.Files.mu.Unlock()
	var out []string
	for _, d := range s.Files.dirs {
		for _, f := range d.Files {
			out = append(out, f.Path)
		}
	}
	return out
}

// Running returns the newest container with this name, and fails the test unless it is running.
func (s *Supervised) Running(name string) critest.Container {
	s.T.Helper()
	c, ok := s.Runtime.Container(name)
	if !ok || c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
		s.T.Fatalf("container %s does not run: %+v; warnings %q, events %q", name, c, s.warnings, s.Reasons())
	}
	return c
}

// Same checks that the container with this name is still the same container.
func (s *Supervised) Same(before critest.Container) {
	s.T.Helper()
	if c := s.Running(before.Name); c.ID != before.ID {
		s.T.Errorf("container %s was replaced: attempt %d, was %d", before.Name, c.Config.GetMetadata().GetAttempt(), before.Config.GetMetadata().GetAttempt())
	}
}

// Absent checks that no container has this name.
func (s *Supervised) Absent(name string) {
	s.T.Helper()
	if c, ok := s.Runtime.Container(name); ok {
		s.T.Errorf("container %s exists: %v", name, c.State)
	}
}

// Starts returns the times at which containers with this name were started.
func (s *Supervised) Starts(name string) []time.Time {
	var out []time.Time
	for _, c := range s.Runtime.Calls() {
		if c.Method == "StartContainer" && c.Subject == name && c.Err == nil {
			out = append(out, c.Start)
		}
	}
	return out
}

// WantStarts checks the number of times that containers with this name were started.
func (s *Supervised) WantStarts(name string, want int) {
	s.T.Helper()
	if got := len(s.Starts(name)); got != want {
		s.T.Errorf("container %s was started %d times, want %d; warnings %q", name, got, want, s.warnings)
	}
}

// VolumeFile returns the content of a file in a volume that is mounted into a container.
func (s *Supervised) VolumeFile(c critest.Container, dir, name string) string {
	s.T.Helper()
	for _, m := range c.Config.GetMounts() {
		if m.GetContainerPath() == dir {
			data, err := os.ReadFile(filepath.Join(m.GetHostPath(), name))
			if err != nil {
				s.T.Error(err)
			}
			return string(data)
		}
	}
	s.T.Errorf("nothing is mounted at %s", dir)
	return ""
}

package state

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/ownruntime"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/test/engine/rig"
)

// lostChoice is a root directory with a pod. Its runtime has a separate socket.
type lostChoice struct {
	*rig.Host
	endpoint string
	stop     func() // a function that stops the runtime
	notes    []string
}

func newLostChoice(t *testing.T) *lostChoice {
	r := rig.New(t)
	socket := filepath.Join(t.TempDir(), "cri.sock")
	stop, err := r.Runtime.Serve(socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	l := &lostChoice{Host: r, endpoint: "unix://" + socket, stop: stop}
	l.Settings.ContainerRuntimeEndpoint = l.endpoint
	l.MustApply(rig.Web("Always"), run.OutcomeCreated)
	return l
}

// runtime returns the Runtime of a command with the given --runtime; "" means auto.
func (l *lostChoice) runtime(wanted string) *ownruntime.Runtime {
	s := l.Settings
	s.ContainerRuntimeEndpoint, s.Runtime = "", wanted
	return ownruntime.New(s, ownruntime.Options{Command: "podrun test", Note: func(s string) { l.notes = append(l.notes, s) }, Warn: func(problem.List) {}})
}

// spoilChoice corrupts the record.
func (l *lostChoice) spoilChoice(t *testing.T, how string) {
	t.Helper()
	layout := embedded.ReadLayout(l.Settings.RootDir)
	if err := embedded.MakeDirs(layout); err != nil {
		t.Fatal(err)
	}
	if err := embedded.WriteChoice(layout, embedded.Choice{Kind: embedded.External, Endpoint: l.endpoint}); err != nil {
		t.Fatal(err)
	}
	spoil(t, layout.Choice(), how)
}

func (l *lostChoice) wantRecord(t *testing.T, want string) {
	t.Helper()
	c, err := embedded.ReadChoice(t.Context(), embedded.ReadLayout(l.Settings.RootDir))
	if err != nil || c == nil || c.Endpoint != want || c.Kind != embedded.External {
		t.Errorf("recorded: %+v, %v", c, err)
	}
}

// TestLostChoiceIsRecovered checks that podrun selects the runtime that has the pods' sandboxes.
func TestLostChoiceIsRecovered(t *testing.T) {
	t.Parallel()
	for how := range corruptFiles {
		t.Run(how, func(t *testing.T) {
			l := newLostChoice(t)
			defer l.MustDelete()
			l.spoilChoice(t, how)
			for _, use := range []ownruntime.Use{ownruntime.Looks, ownruntime.Reads} {
				if got, err := l.runtime("").Open(t.Context(), use); got != l.endpoint || err != nil {
					t.Fatalf("to read: %q, %v", got, err)
				}
			}
			if len(l.notes) > 0 {
				t.Errorf("a command that reads wrote the record: %q", l.notes)
			}
			if got, err := l.runtime("").Open(t.Context(), ownruntime.Acts); got != l.endpoint || err != nil {
				t.Fatalf("to act: %q, %v", got, err)
			}
			if len(l.notes) != 1 || !strings.Contains(l.notes[0], "wrote the record again") {
				t.Errorf("notes %q", l.notes)
			}
			l.wantRecord(t, l.endpoint)
		})
	}
}

// TestLostChoiceWithAnEndpoint checks that a command with an endpoint treats a lost record as
// missing, and records the endpoint.
func TestLostChoiceWithAnEndpoint(t *testing.T) {
	t.Parallel()
	for how := range corruptFiles {
		t.Run(how, func(t *testing.T) {
			l := newLostChoice(t)
			defer l.MustDelete()
			l.spoilChoice(t, how)
			for _, use := range []ownruntime.Use{ownruntime.Looks, ownruntime.Reads, ownruntime.Acts, ownruntime.Starts} {
				if got, err := l.runtime(l.endpoint).Open(t.Context(), use); got != l.endpoint || err != nil {
					t.Fatalf("%q, %v", got, err)
				}
			}
			l.wantRecord(t, l.endpoint)
		})
	}
}

// TestLostChoiceUndecided covers pods that no responding runtime has. The error must name the
// command that records the runtime again, and this command must succeed.
func TestLostChoiceUndecided(t *testing.T) {
	t.Parallel()
	l := newLostChoice(t)
	defer l.MustDelete()
	l.spoilChoice(t, "cut short")
	l.stop()
	_, err := l.runtime("").Open(t.Context(), ownruntime.Reads)
	rig.WantErr(t, err, problem.Runtime, "choice.json")
	if hint := problem.WithHint(err); !strings.Contains(hint, "podrun runtime up --runtime=RUNTIME") {
		t.Errorf("hint %q", hint)
	}
	stop, err := l.Runtime.Serve(strings.TrimPrefix(l.endpoint, "unix://"))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if _, err := l.runtime(l.endpoint).Open(t.Context(), ownruntime.Starts); err != nil {
		t.Fatal(err)
	}
	l.wantRecord(t, l.endpoint)
}

// TestLostChoiceOfStoppedPods checks that podrun does not guess the runtime of pods without
// sandboxes if the embedded runtime may have them.
func TestLostChoiceOfStoppedPods(t *testing.T) {
	t.Parallel()
	l := newLostChoice(t)
	defer l.MustDelete()
	l.spoilChoice(t, "empty")
	pods, err := store.StoredPods(l.Layout())
	if err != nil || len(pods) != 1 {
		t.Fatal(pods, err)
	}
	for _, b := range l.Runtime.Sandboxes() {
		if _, err := l.Runtime.RemovePodSandbox(t.Context(), &runtimeapi.RemovePodSandboxRequest{PodSandboxId: b.ID}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := l.runtime("").Open(t.Context(), ownruntime.Reads); got != l.endpoint || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if err := os.Mkdir(filepath.Join(embedded.ReadLayout(l.Settings.RootDir).Dir(), strings.Repeat("a", 64)), 0o750); err != nil {
		t.Fatal(err)
	}
	_, err = l.runtime("").Open(t.Context(), ownruntime.Reads)
	rig.WantErr(t, err, problem.Runtime, "choice.json")
	if hint := problem.WithHint(err); !strings.Contains(hint, l.endpoint+", embedded") {
		t.Errorf("hint %q", hint)
	}
	if s, err := l.runtime(embedded.ByFlag).Status(t.Context()); err != nil || s.Kind != string(embedded.Own) {
		t.Errorf("--runtime=embedded: %+v, %v", s, err)
	}
}

// TestChoiceOfANewerPodrun checks that podrun neither uses nor overwrites the record of a newer version
// of podrun, whose fields it may misread: the pods use the runtime that has their sandboxes.
func TestChoiceOfANewerPodrun(t *testing.T) {
	t.Parallel()
	l := newLostChoice(t)
	defer l.MustDelete()
	l.spoilChoice(t, "empty")
	path := embedded.ReadLayout(l.Settings.RootDir).Choice()
	text := []byte(`{"schemaVersion": 2, "kind": "external", "endpoint": "unix:///none.sock"}`)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, use := range []ownruntime.Use{ownruntime.Reads, ownruntime.Starts} {
		if got, err := l.runtime("").Open(t.Context(), use); got != l.endpoint || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	if got, err := l.runtime(l.endpoint).Open(t.Context(), ownruntime.Starts); got != l.endpoint || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, text) {
		t.Errorf("the record is %s, %v", now, err)
	}
}

// TestUnusableChoiceIsRecovered covers a directory in the place of the record, and a record that podrun can neither
// read nor replace, so that each command must determine the runtime again.
func TestUnusableChoiceIsRecovered(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"a directory", "unreadable"} {
		t.Run(how, func(t *testing.T) {
			l := newLostChoice(t)
			defer l.MustDelete()
			path := embedded.ReadLayout(l.Settings.RootDir).Choice()
			l.spoilChoice(t, "empty")
			damage(t, path, how)
			for _, use := range []ownruntime.Use{ownruntime.Reads, ownruntime.Acts, ownruntime.Acts} {
				if got, err := l.runtime("").Open(t.Context(), use); got != l.endpoint || err != nil {
					t.Fatalf("%q, %v", got, err)
				}
			}
			if how == "a directory" {
				l.wantRecord(t, l.endpoint)
			}
		})
	}
}

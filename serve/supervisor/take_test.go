package supervisor

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/serve/source"
)

// supervisorOfPods returns a supervisor with pods that have no goroutine.
func supervisorOfPods(t *testing.T, names ...string) *Supervisor {
	t.Helper()
	s := New(&node.Node{Client: critest.ForTest(t).Client(), Settings: nodeconfig.Settings{RootDir: t.TempDir()}}, Options{})
	for _, name := range names {
		id := identity.Pod{Namespace: "default", Name: name}
		s.pods[id] = newPod(s, id)
	}
	return s
}

// notified returns the names of the pods with a signal on the channel, and receives these signals.
func notified(s *Supervisor, of func(*pod) chan struct{}) (names []string) {
	for id, p := range s.pods {
		select {
		case <-of(p):
			names = append(names, id.Name)
		default:
		}
	}
	slices.Sort(names)
	return names
}

func changes(p *pod) chan struct{} { return p.changed }
func owners(p *pod) chan struct{}  { return p.owner }

// TestTakeUnchanged checks that a read of unchanged directories makes the pods compare their situations
// only at the interval checkEvery, and that a change makes them do it immediately.
func TestTakeUnchanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := supervisorOfPods(t, "web")
		take := func(objects *manifest.Objects) []string {
			snapshot := &source.Snapshot{Dirs: []source.Dir{{Path: "/m", State: source.Present, Files: []source.File{{Path: "/m/a.yaml", State: source.Good, Objects: objects}}}}}
			s.take(t.Context(), snapshot, source.Merge(snapshot))
			return notified(s, changes)
		}
		objects := &manifest.Objects{}
		want := []string{"web"}
		if got := take(objects); !slices.Equal(got, want) {
			t.Errorf("the first read notified %q, want %q", got, want)
		}
		for at := 20 * time.Second; at <= 2*checkEvery; at += 20 * time.Second {
			time.Sleep(20 * time.Second)
			got := take(objects)
			if whole := at%checkEvery == 0; slices.Equal(got, want) != whole {
				t.Errorf("after %s: notified %q", at, got)
			}
		}
		time.Sleep(20 * time.Second)
		if got := take(&manifest.Objects{}); !slices.Equal(got, want) {
			t.Errorf("a changed file notified %q, want %q", got, want)
		}
	})
}

// TestStateChanged checks that a change of one pod's state notifies this pod, and that lost events notify
// all pods.
func TestStateChanged(t *testing.T) {
	s := supervisorOfPods(t, "db", "web")
	s.stateChanged(t.Context(), identity.Pod{Namespace: "default", Name: "web"})
	if got := notified(s, owners); !slices.Equal(got, []string{"web"}) {
		t.Errorf("a change of web notified %q", got)
	}
	s.stateChanged(t.Context(), identity.Pod{})
	if got := notified(s, owners); !slices.Equal(got, []string{"db", "web"}) {
		t.Errorf("lost events notified %q", got)
	}
	if got := notified(s, changes); !slices.Equal(got, []string{"db", "web"}) {
		t.Errorf("lost events made %q compare their situations", got)
	}
}

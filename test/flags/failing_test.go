package flags

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/test/ring"
)

// changing are the commands that change objects, in the order of their names.
var changing = []string{"apply", "create", "debug", "delete", "edit", "gc", "label", "patch", "restart", "rollout restart", "rollout undo", "run", "scale",
	"set env", "set image", "set resources", "start", "stop", "wait"}

// callsOf returns the calls of commands without flags and with the values of -o.
func callsOf(t *testing.T, names ...string) (all []call) {
	known := map[string]command{}
	for _, c := range commands() {
		known[c.path] = c
	}
	for _, name := range names {
		c, ok := known["podrun "+name]
		if !ok {
			t.Fatalf("there is no command %s", name)
		}
		bare, _, _ := calls(c)
		all = append(all, bare...)
	}
	return all
}

// TestFlagsFailing calls commands while a call of the runtime fails. A command that fails also reports the
// objects that it has changed.
func TestFlagsFailing(t *testing.T) {
	ring.RequireRoot(t)
	methods, all := []string{"ListPodSandbox"}, callsOf(t, "delete", "scale")
	if ring.Is(2) {
		methods, all = append(methods, "CreateContainer", "RemovePodSandbox"), callsOf(t, changing...)
	}
	for _, method := range methods {
		t.Run(method, func(t *testing.T) {
			rigs := newRigs(t)
			for _, r := range rigs {
				r.during = func(h *host) (end func()) { return h.rt.Fault(method, critest.Fault{When: critest.Before}) }
			}
			tryAll(t, rigs, all)
		})
	}
}

// TestFlagsWithoutCheckpoint calls commands after the checkpoints of all pods were lost, so that podrun
// knows the pods only from the runtime.
func TestFlagsWithoutCheckpoint(t *testing.T) {
	ring.RequireRoot(t)
	rigs := newRigs(t)
	for _, r := range rigs {
		r.also = func(h *host) error {
			pods, err := os.ReadDir(h.layout.PodsDir())
			for _, p := range pods {
				if rerr := os.Remove(h.layout.Pod(p.Name()).Checkpoint()); !errors.Is(rerr, fs.ErrNotExist) {
					err = errors.Join(err, rerr)
				}
			}
			return err
		}
	}
	var all []call
	for _, c := range commands() {
		bare, single, _ := calls(c)
		if ring.Is(2) {
			all = append(all, bare...)
		}
		if c.path == "podrun wait" {
			all = append(all, single...)
		}
	}
	tryAll(t, rigs, all)
}

package run

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"sync"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/event"
	"github.com/podrun/podrun/identity"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/nodeconfig"
	"github.com/podrun/podrun/problem"
	"github.com/podrun/podrun/run/store"
)

// Engine runs pods on one runtime. Its fields are set once; it is safe for
// concurrent use.
type Engine struct {
	Client   *cri.Client
	Settings nodeconfig.Settings
	Emit     event.Sink         // gets every pod's events
	Progress event.Sink         // gets how far pulls are, every now and then; may be nil
	Warn     func(problem.List) // gets what should be said once, and refuses nothing
	Command  string             // this command line, which locks show to others
	// Invocation is the random id of this process, which marks what it makes.
	Invocation string

	warned sync.Map // warnings that warnOnce gave out
}

// NewInvocation makes up an id for a process: 16 hex digits.
func NewInvocation() string { return store.RandomHex(8) }

// RandomSuffix makes up a suffix for metadata.generateName, of five characters
// that can't spell a word (k8s.io/apimachinery/pkg/util/rand).
func RandomSuffix() string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	raw := make([]byte, 5)
	rand.Read(raw) // never fails (crypto/rand, Go 1.24)
	for i := range raw {
		raw[i] = letters[int(raw[i])%len(letters)]
	}
	return string(raw)
}

func (e *Engine) layout() identity.Layout { return e.Settings.Layout() }

func (e *Engine) warn(l problem.List) {
	if e.Warn != nil && len(l) > 0 {
		e.Warn(l)
	}
}

// warnOnce gives out a warning, unless this engine has done so before: what is
// wrong with a file is found at every look at its pod.
func (e *Engine) warnOnce(p problem.Problem) {
	if _, before := e.warned.LoadOrStore(p.String(), true); !before {
		p.Warning = true
		e.warn(problem.List{p})
	}
}

// sideBySide does something with each of a list at once, and gathers what comes
// of it in the list's order.
func sideBySide[T, R any](list []T, do func(T) R) []R {
	results := make([]R, len(list))
	var wg sync.WaitGroup
	for i, item := range list {
		wg.Go(func() { results[i] = do(item) })
	}
	wg.Wait()
	return results
}

// locks makes the locks of this process.
func (e *Engine) locks() store.Locks { return store.NewLocks(e.layout(), e.who(), e.warn) }

// lockPods locks the pods of the objects.
func (e *Engine) lockPods(ctx context.Context, objects *manifest.Objects) (store.PodLocks, error) {
	ids := make([]identity.Pod, 0, len(objects.Pods))
	for _, p := range objects.Pods {
		ids = append(ids, identity.Pod{Namespace: p.Object.Namespace, Name: p.Object.Name})
	}
	return e.locks().LockPods(ctx, ids)
}

// who names this process in a lock, uniquely.
func (e *Engine) who() string {
	return fmt.Sprintf("process %d (%s) [%s]", os.Getpid(), e.Command, e.Invocation)
}

// Outcome says what became of a pod.
type Outcome string

// The outcomes of apply and delete.
const (
	OutcomeCreated   Outcome = "created"
	OutcomeRestarted Outcome = "restarted" // containers that had ended were started again
	OutcomeReplaced  Outcome = "replaced"
	OutcomeUpdated   Outcome = "updated"
	OutcomeUnchanged Outcome = "unchanged"
	OutcomeFailed    Outcome = "failed"
	OutcomeDeleted   Outcome = "deleted"
	OutcomeStopped   Outcome = "stopped"
	OutcomeMet       Outcome = "condition met" // what was waited for is there
)

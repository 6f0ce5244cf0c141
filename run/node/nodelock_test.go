package node

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
)

func lockNode(t *testing.T) *Node {
	s := nodeconfig.Default()
	s.RootDir = t.TempDir()
	return &Node{Settings: s, Command: "podrun apply x", Invocation: "1", Unattended: true}
}

// TestNodeLockIsHandedOn checks that the pods of one command pass the lock to each other instead
// of polling it. At the shortest interval, polling would take 100 ms for 100 pods.
func TestNodeLockIsHandedOn(t *testing.T) {
	n := lockNode(t)
	var inside, most, done int
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			err := n.UnderNodeLock(t.Context(), func() error {
				inside++
				most = max(most, inside)
				time.Sleep(10 * time.Microsecond)
				inside--
				done++
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if most != 1 || done != 100 {
		t.Errorf("%d held the lock concurrently, %d in total", most, done)
	}
}

// TestNodeLockTurnEndsWithContext checks that the timeout of a command also limits its wait for another
// pod of the same process. That pod may be waiting for another process.
func TestNodeLockTurnEndsWithContext(t *testing.T) {
	n := lockNode(t)
	if err := n.turn.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, problem.TimeoutError{After: 10 * time.Millisecond})
	defer cancel()
	err := n.UnderNodeLock(ctx, func() error { return errors.New("done without the lock") })
	if e, ok := errors.AsType[*problem.Error](err); !ok || e.Kind != problem.Deadline {
		t.Errorf("%v", err)
	}
	n.turn.leave()
	if err := n.UnderNodeLock(t.Context(), func() error { return nil }); err != nil {
		t.Error(err)
	}
}

// TestTurnThatIsFree checks that a command whose timeout has expired still gets its turn if no
// other pod waits, so that it tries to acquire the lock once.
func TestTurnThatIsFree(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var free turn
	for range 100 {
		if err := free.take(ended); err != nil {
			t.Fatal(err)
		}
		free.leave()
	}
}

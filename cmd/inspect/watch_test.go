package inspect

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
)

func watched(names ...string) (out []corev1.Pod) {
	for _, n := range names {
		name, phase, _ := strings.Cut(n, "=")
		out = append(out, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Status: corev1.PodStatus{Phase: corev1.PodPhase(phase)}})
	}
	return out
}

func shownPods(pods []corev1.Pod) string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Name+"="+string(p.Status.Phase)+p.Status.Reason)
	}
	return strings.Join(out, " ")
}

// TestWatchPods checks that pods are polled without a supervisor. With one, its events trigger
// the reads; when it exits, polling resumes.
func TestWatchPods(t *testing.T) {
	for name, supervised := range map[string]bool{"polls": false, "events": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				signals := make(chan event.Event, 1)
				states := [][]corev1.Pod{watched("a=Pending"), watched("a=Running", "b=Pending"), watched("a=Running", "b=Pending"), watched("b=Pending")}
				reads := 0
				read := func(context.Context) ([]corev1.Pod, error) {
					state := states[min(reads, len(states)-1)]
					reads++
					if supervised && reads < 3 {
						signals <- event.Event{}
					}
					if supervised && reads == 3 {
						close(signals)
					}
					return state, nil
				}
				opened := 0
				events := func(context.Context) (<-chan event.Event, error) {
					if opened++; !supervised || opened > 1 {
						return nil, errors.New("no supervisor")
					}
					return signals, nil
				}
				var shown []string
				go func() {
					time.Sleep(3500 * time.Millisecond)
					cancel(errors.New("signal"))
				}()
				err := watchPods(ctx, read, events, false, func(pods []corev1.Pod) error {
					shown = append(shown, shownPods(pods))
					return nil
				})
				want := "a=Pending|a=Running b=Pending|a=Deleted"
				if err == nil || err.Error() != "signal" || strings.Join(shown, "|") != want {
					t.Errorf("shown %q, want %q; %v", shown, want, err)
				}
			})
		})
	}
}

func TestWatchOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		stop := errors.New("stop")
		err := watchPods(t.Context(), func(context.Context) ([]corev1.Pod, error) {
			reads++
			return watched([]string{"a=Pending", "a=Running"}[min(reads-1, 1)]), nil
		}, func(context.Context) (<-chan event.Event, error) { return nil, errors.New("none") }, true, func(pods []corev1.Pod) error {
			if shownPods(pods) != "a=Running" {
				t.Errorf("shown %v", shownPods(pods))
			}
			return stop
		})
		if !errors.Is(err, stop) {
			t.Error(err)
		}
	})
}

// TestWatchEnd checks that a watch ends successfully when --timeout expires, and with the error otherwise.
func TestWatchEnd(t *testing.T) {
	failure := errors.New("ended")
	for name, test := range map[string]struct{ cause, want error }{
		"--timeout": {problem.TimeoutError{After: time.Second}, nil},
		"a signal":  {exit.SignalError{Signal: syscall.SIGINT}, failure},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		if err := watchEnd(ctx, failure); err != failure {
			t.Errorf("before the end: %v", err)
		}
		cancel(test.cause)
		if err := watchEnd(ctx, failure); err != test.want {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
}

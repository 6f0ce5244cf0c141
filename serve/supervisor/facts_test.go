package supervisor

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/host"
)

// reading is the result of facts.read for one pod.
type reading struct {
	facts host.Facts
	err   error
}

// readers performs concurrent reads of one facts value. The test determines when the source of the
// facts responds.
type readers struct {
	*facts
	hangs   bool          // true if the source ignores a canceled context
	begun   int           // number of reads of the source
	answers chan error    // the source's next responses
	ended   chan struct{} // receives a signal for each read whose context has ended
}

func newReaders() *readers {
	r := &readers{answers: make(chan error), ended: make(chan struct{}, 10)}
	r.facts = &facts{discover: func(ctx context.Context) (host.Facts, error) {
		// Only one read may run at a time.
		r.begun++
		facts := host.Facts{Hostname: strconv.Itoa(r.begun)}
		done := ctx.Done()
		if r.hangs {
			done = nil
		}
		select {
		case err := <-r.answers:
			return facts, err
		case <-done:
			r.ended <- struct{}{}
			return host.Facts{}, ctx.Err()
		}
	}}
	return r
}

// begin starts a read for a pod. The test can cancel the pod's step.
func (r *readers) begin(t *testing.T) (<-chan reading, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(t.Context())
	out := make(chan reading, 1)
	go func() {
		facts, err := r.read(ctx)
		out <- reading{facts, err}
	}()
	synctest.Wait()
	return out, cancel
}

func want(t *testing.T, what string, from <-chan reading, name string, because error) {
	t.Helper()
	synctest.Wait()
	select {
	case r := <-from:
		if !errors.Is(r.err, because) || r.facts.Hostname != name {
			t.Errorf("%s: facts %q, error %v; want %q, %v", what, r.facts.Hostname, r.err, name, because)
		}
	default:
		t.Errorf("%s: still waits", what)
	}
}

// TestFactsHang covers a read of the host's facts that hangs: a pod's step must end when it is
// canceled, and the other pods must get the result.
func TestFactsHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReaders()
		first, cancelFirst := r.begin(t)
		second, cancelSecond := r.begin(t)
		third, cancelThird := r.begin(t)
		defer cancelThird(nil)
		cancelSecond(errChanged)
		want(t, "a canceled one that waits", second, "", errChanged)
		cancelFirst(errChanged)
		want(t, "the canceled one that began", first, "", errChanged)
		r.answers <- nil
		want(t, "the other one", third, "1", nil)
		fourth, cancelFourth := r.begin(t)
		defer cancelFourth(nil)
		want(t, "one soon afterwards", fourth, "1", nil)
		if r.begun != 1 {
			t.Errorf("the facts were read %d times, want 1", r.begun)
		}
	})
}

// TestFactsUnused covers a read for which no pod waits any longer: it must be canceled, and the
// next pod must start another one.
func TestFactsUnused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReaders()
		for range 2 {
			first, cancelFirst := r.begin(t)
			second, cancelSecond := r.begin(t)
			cancelFirst(errChanged)
			cancelSecond(errChanged)
			want(t, "the first one", first, "", errChanged)
			want(t, "the second one", second, "", errChanged)
			select {
			case <-r.ended:
			default:
				t.Fatal("the read was not canceled")
			}
		}
		third, cancelThird := r.begin(t)
		defer cancelThird(nil)
		r.answers <- nil
		want(t, "a later one", third, "3", nil)
	})
}

// TestFactsUnusedHang covers a read that hangs: no other read may start, even if no pod waits for
// the first one any longer. If the first read succeeds after all, podrun must use its result.
func TestFactsUnusedHang(t *testing.T) {
	for answer, name := range map[error]string{nil: "1", context.Canceled: "2"} {
		synctest.Test(t, func(t *testing.T) {
			r := newReaders()
			r.hangs = true
			first, cancelFirst := r.begin(t)
			cancelFirst(errChanged)
			want(t, "the first one", first, "", errChanged)
			second, cancelSecond := r.begin(t)
			cancelSecond(errChanged)
			want(t, "the second one", second, "", errChanged)
			third, cancelThird := r.begin(t)
			defer cancelThird(nil)
			if r.begun != 1 {
				t.Errorf("%d readings, want 1", r.begun)
			}
			r.answers <- answer
			if answer != nil {
				r.answers <- nil
			}
			want(t, "the third one", third, name, nil)
			fourth, cancelFourth := r.begin(t)
			defer cancelFourth(nil)
			want(t, "the fourth one", fourth, name, nil)
		})
	}
}

// TestFactsFail checks that all waiting pods get the error, and that the error is not cached.
func TestFactsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReaders()
		down := errors.New("the runtime does not answer")
		first, cancelFirst := r.begin(t)
		defer cancelFirst(nil)
		second, cancelSecond := r.begin(t)
		defer cancelSecond(nil)
		r.answers <- down
		want(t, "the first one", first, "1", down)
		want(t, "the second one", second, "1", down)
		third, cancelThird := r.begin(t)
		defer cancelThird(nil)
		r.answers <- nil
		want(t, "the next one", third, "2", nil)
		time.Sleep(factsAge)
		fourth, cancelFourth := r.begin(t)
		defer cancelFourth(nil)
		r.answers <- nil
		want(t, "a much later one", fourth, "3", nil)
	})
}

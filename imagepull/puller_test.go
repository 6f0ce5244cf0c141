package imagepull

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
)

// TestPoliciesCallsAndEventsAreTheKubelets checks that the calls and events are those of the pod in
// kubelet-golden case 28-image-policies. Each test case corresponds to a container of that pod.
func TestPoliciesCallsAndEventsAreTheKubelets(t *testing.T) {
	for _, test := range []struct {
		name, image, policy string
		here                []string
		calls, events       []string
	}{
		{"present", "r.example/app:1", "IfNotPresent", []string{"r.example/app:1"},
			[]string{"ImageStatus r.example/app:1", "ImageStatus r.example/app:1 bare"},
			[]string{`Normal Pulled spec.containers{app}: Container image "r.example/app:1" already present on machine and can be accessed by the pod`}},
		{"absent", "r.example/app:1", "IfNotPresent", nil,
			[]string{"ImageStatus r.example/app:1", "PullImage r.example/app:1", "ImageStatus r.example/app:1", "ImageStatus r.example/app:1 bare"},
			[]string{`Normal Pulling spec.containers{app}: Pulling image "r.example/app:1"`,
				`Normal Pulled spec.containers{app}: Successfully pulled image "r.example/app:1" in 1.2s (1.2s including waiting). Image size: 1048576 bytes.`}},
		{"always", "busybox", "Always", []string{"busybox:latest"},
			[]string{"PullImage busybox:latest", "ImageStatus busybox:latest", "ImageStatus busybox bare"},
			[]string{`Normal Pulling spec.containers{app}: Pulling image "busybox"`,
				`Normal Pulled spec.containers{app}: Successfully pulled image "busybox" in 1.2s (1.2s including waiting). Image size: 1048576 bytes.`}},
		{"never, present", "r.example/app:1", "Never", []string{"r.example/app:1"},
			[]string{"ImageStatus r.example/app:1", "ImageStatus r.example/app:1 bare"},
			[]string{`Normal Pulled spec.containers{app}: Container image "r.example/app:1" already present on machine and can be accessed by the pod`}},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRegistry(test.here...)
			ref, _ := normalize(test.image)
			r.slow[ref] = 1200 * time.Millisecond
			pulls := r.puller(Options{}).Start(t.Context(), planOf(t, "containers:\n"+container("app", test.image, test.policy)))
			got, err := pulls.Wait(t.Context(), "app")
			pulls.Stop()
			if err != nil || got.ImageID != "sha256:"+ref || got.UID == nil || *got.UID != 0 || got.Size != 1048576 {
				t.Errorf("%s: %+v, %v", test.name, got, err)
			}
			wantLines(t, test.name+": calls", r.calls, test.calls)
			wantLines(t, test.name+": events", r.events, test.events)
		})
	}
}

func TestNeverPullFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		pulls := r.puller(Options{}).Start(t.Context(), planOf(t, "containers:\n"+container("app", "r.example/app:1", "Never")))
		_, err := pulls.Wait(t.Context(), "app")
		wantFailure(t, err, ReasonNeverPull, "")
		wantLines(t, "calls", r.calls, []string{"ImageStatus r.example/app:1"})
		wantLines(t, "events", r.events, []string{
			`Warning ErrImageNeverPull spec.containers{app}: Container image "r.example/app:1" is not present with pull policy of Never`,
			`Warning Failed spec.containers{app}: Error: ErrImageNeverPull`,
		})
	})
}

// TestReservedNamesAreNotPulled checks that no registry, such as a mirror for all registries, can
// provide an image with a name that is reserved for podrun.
func TestReservedNamesAreNotPulled(t *testing.T) {
	for _, policy := range []string{"Always", "IfNotPresent"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRegistry()
			pulls := r.puller(Options{}).Start(t.Context(), planOf(t, "containers:\n"+container("app", "pause.podrun.invalid/pause:1", policy)))
			_, err := pulls.Wait(t.Context(), "app")
			wantFailure(t, err, ReasonPull, NotFound)
			if r.tries["pause.podrun.invalid/pause:1"] != 0 {
				t.Error("podrun has asked a registry")
			}
		})
	}
}

func wantFailure(t *testing.T, err error, reason string, class Class) {
	t.Helper()
	var failed *problem.Error
	var pull *PullError
	if !errors.As(err, &failed) || !errors.As(err, &pull) {
		t.Fatalf("error %#v", err)
	}
	if failed.Kind != problem.Image || failed.Hint == "" || pull.Reason != reason || pull.Class != class {
		t.Errorf("kind %s, hint %q, reason %s, class %s of %v; want Image, a hint, %s, %s", failed.Kind, failed.Hint, pull.Reason, pull.Class, err, reason, class)
	}
}

const notFound = `failed to pull and unpack image "r.example/broken:1": not found`

func TestFatalFailureFailsAtOnceForEachContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		r.pull = func(int, *runtimeapi.PullImageRequest) error { return status.Error(codes.NotFound, notFound) }
		begun := time.Now()
		pulls := r.puller(Options{}).Start(t.Context(), planOf(t, "containers:\n"+
			container("a", "r.example/broken:1", "IfNotPresent")+container("b", "r.example/broken:1", "IfNotPresent")))
		for _, name := range []string{"a", "b"} {
			_, err := pulls.Wait(t.Context(), name)
			wantFailure(t, err, ReasonPull, NotFound)
			want := "container " + name + `: image "r.example/broken:1": ErrImagePull: not found`
			if err.Error() != want {
				t.Errorf("error %q, want %q", err, want)
			}
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("took %v", took)
		}
		if r.tries["r.example/broken:1"] != 1 {
			t.Errorf("%d pulls", r.tries["r.example/broken:1"])
		}
		wantLines(t, "events", r.events, []string{
			`Normal Pulling spec.containers{a}: Pulling image "r.example/broken:1"`,
			`Warning Failed spec.containers{a}: Failed to pull image "r.example/broken:1": rpc error: code = NotFound desc = ` + notFound,
			`Warning Failed spec.containers{a}: Error: ErrImagePull`,
			`Warning Failed spec.containers{b}: Error: ErrImagePull`,
		})
	})
}

func TestTransientFailureBacksOffAndRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		r.pull = func(try int, _ *runtimeapi.PullImageRequest) error {
			if try < 4 {
				return status.Error(codes.Unknown, `Head "https://bob:pw@r.example/v2/": dial tcp 127.0.0.1:1: connect: connection refused`)
			}
			return nil
		}
		begun := time.Now()
		pulls := r.puller(Options{}).Start(t.Context(), planOf(t, "containers:\n"+container("app", "r.example/app:1", "IfNotPresent")))
		if _, err := pulls.Wait(t.Context(), "app"); err != nil {
			t.Fatal(err)
		}
		// The expected duration is the sum of the back-offs: 10 + 20 + 40 s.
		if took := time.Since(begun); took != 70*time.Second {
			t.Errorf("took %v, want 70 s", took)
		}
		once := []string{
			`Normal Pulling spec.containers{app}: Pulling image "r.example/app:1"`,
			`Warning Failed spec.containers{app}: Failed to pull image "r.example/app:1": rpc error: code = Unknown desc = Head "https://***@r.example/v2/": dial tcp 127.0.0.1:1: connect: connection refused`,
			`Warning Failed spec.containers{app}: Error: ErrImagePull`,
			`Normal BackOff spec.containers{app}: Back-off pulling image "r.example/app:1"`,
			`Warning Failed spec.containers{app}: Error: ImagePullBackOff`,
		}
		wantLines(t, "events of the first try", r.events[:5], once)
		if len(r.events) != 3*5+2 {
			t.Errorf("%d events: %v", len(r.events), r.events)
		}
	})
}

func TestDeadlineNamesTheLastFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		r.pull = func(int, *runtimeapi.PullImageRequest) error {
			return status.Error(codes.Unknown, "dial tcp 127.0.0.1:1: connect: connection refused")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		pulls := r.puller(Options{}).Start(ctx, planOf(t, "containers:\n"+container("app", "r.example/app:1", "IfNotPresent")))
		_, err := pulls.Wait(ctx, "app")
		pulls.Stop()
		wantFailure(t, err, ReasonBackOff, Unavailable)
		if want := `container app: image "r.example/app:1": ImagePullBackOff: dial tcp 127.0.0.1:1: connect: connection refused`; err.Error() != want {
			t.Errorf("error %q, want %q", err, want)
		}
		// Calling Wait again must return the same error.
		_, err = pulls.Wait(t.Context(), "app")
		wantFailure(t, err, ReasonBackOff, Unavailable)
	})
}

func TestEndOfContext(t *testing.T) {
	interrupted := errors.New("interrupted")
	for _, test := range []struct {
		name string
		ctx  func(context.Context) (context.Context, context.CancelFunc)
		want func(error) bool
	}{
		{"deadline in a pull", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Minute)
		}, func(err error) bool {
			var p *problem.Error
			return errors.As(err, &p) && p.Kind == problem.Deadline && p.Hint != ""
		}},
		{"signal", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(time.Minute, func() { cancel(interrupted) })
			return ctx, func() { cancel(nil) }
		}, func(err error) bool { return errors.Is(err, interrupted) }},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRegistry()
			r.slow["r.example/app:1"] = time.Hour
			ctx, cancel := test.ctx(t.Context())
			defer cancel()
			pulls := r.puller(Options{}).Start(ctx, planOf(t, "containers:\n"+container("app", "r.example/app:1", "Always")))
			_, err := pulls.Wait(ctx, "app")
			if !test.want(err) {
				t.Errorf("%s: error %#v", test.name, err)
			}
			pulls.Stop()
			if _, again := pulls.Wait(t.Context(), "app"); !test.want(again) {
				t.Errorf("%s: asked again: %#v", test.name, again)
			}
			wantLines(t, test.name, r.events, []string{`Normal Pulling spec.containers{app}: Pulling image "r.example/app:1"`})
		})
	}
}

// TestContainersWaitOnlyForTheirOwnImage (k/k#15914) checks that one slow pull does not block the
// others.
func TestContainersWaitOnlyForTheirOwnImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		r.slow["slow:1"], r.slow["fast:1"] = time.Hour, time.Second
		begun := time.Now()
		pulls := r.puller(Options{}).Start(t.Context(), planOf(t, "initContainers:\n"+container("init", "fast:1", "IfNotPresent")+
			"containers:\n"+container("a", "slow:1", "IfNotPresent")+container("b", "fast:1", "IfNotPresent")))
		for _, name := range []string{"init", "b"} {
			if _, err := pulls.Wait(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begun); took != time.Second {
			t.Errorf("the fast image took %v", took)
		}
		if _, err := pulls.Wait(t.Context(), "a"); err != nil || time.Since(begun) != time.Hour {
			t.Errorf("the slow image took %v, %v", time.Since(begun), err)
		}
		if r.tries["fast:1"] != 1 {
			t.Errorf("fast:1 was pulled %d times", r.tries["fast:1"])
		}
		if !slices.Contains(r.events, `Normal Pulled spec.containers{b}: Container image "fast:1" already present on machine and can be accessed by the pod`) {
			t.Errorf("no event for the second container: %v", r.events)
		}
	})
}

func TestMaxParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		spec := "containers:\n"
		for i := range 6 {
			name := fmt.Sprintf("c%d", i)
			r.slow[name+":1"] = time.Second
			spec += container(name, name+":1", "IfNotPresent")
		}
		begun := time.Now()
		pulls := r.puller(Options{MaxParallel: 2}).Start(t.Context(), planOf(t, spec))
		for i := range 6 {
			if _, err := pulls.Wait(t.Context(), fmt.Sprintf("c%d", i)); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begun); took != 3*time.Second || r.most != 2 {
			t.Errorf("took %v with %d at a time; want 3 s and 2", took, r.most)
		}
	})
}

func TestQPS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		spec := "containers:\n"
		for i := range 6 {
			spec += container(fmt.Sprintf("c%d", i), fmt.Sprintf("c%d:1", i), "IfNotPresent")
		}
		begun := time.Now()
		pulls := r.puller(Options{QPS: 2, Burst: 2}).Start(t.Context(), planOf(t, spec))
		for i := range 6 {
			if _, err := pulls.Wait(t.Context(), fmt.Sprintf("c%d", i)); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begun); took != 2*time.Second {
			t.Errorf("took %v, want 2 s for 4 pulls beyond the burst", took)
		}
	})
}

// TestQPSOfAbandonedPulls checks that pulls that are canceled before their turn do not count
// towards the rate limit, regardless of the order in which they are canceled.
func TestQPSOfAbandonedPulls(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}} {
		for _, parallel := range []int{0, 1, 2} {
			t.Run(fmt.Sprintf("order %v, %d at a time", order, parallel), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { abandonPulls(t, order, parallel) })
			})
		}
	}
}

func abandonPulls(t *testing.T, order []int, parallel int) {
	r := newRegistry()
	r.slow["first:1"] = 2 * time.Second
	puller := r.puller(Options{QPS: 0.125, Burst: 1, MaxParallel: parallel})
	start := func(name string) *Pulls {
		pulls := puller.Start(t.Context(), planOf(t, "containers:\n"+container("app", name+":1", "IfNotPresent")))
		// After this, the pull is in the queue.
		synctest.Wait()
		return pulls
	}
	begun := time.Now()
	first := start("first")
	var abandoned []*Pulls
	for i := range order {
		abandoned = append(abandoned, start(fmt.Sprintf("abandoned%d", i)))
	}
	time.Sleep(time.Second)
	for _, i := range order {
		abandoned[i].Stop()
	}
	second, third := start("second"), start("third")
	for i, pulls := range []*Pulls{first, second, third} {
		if _, err := pulls.Wait(t.Context(), "app"); err != nil {
			t.Fatal(err)
		}
		if took, want := time.Since(begun), []time.Duration{2 * time.Second, 8 * time.Second, 16 * time.Second}[i]; took != want {
			t.Errorf("pull %d ended after %v, want %v", i, took, want)
		}
		pulls.Stop()
	}
}

// TestPodsShareAPull checks that if several pods lack the same image, or have the pull policy
// Always, one of them pulls it for all.
func TestPodsShareAPull(t *testing.T) {
	for _, policy := range []string{"IfNotPresent", "Always"} {
		synctest.Test(t, func(t *testing.T) { podsShareAPull(t, policy) })
	}
}

func podsShareAPull(t *testing.T, policy string) {
	r := newRegistry()
	r.slow["app:1"] = time.Second
	p := r.puller(Options{RecordDir: t.TempDir()})
	spec := "containers:\n" + container("app", "app:1", policy)
	var all []*Pulls
	for i := range 4 {
		plan := planOf(t, spec)
		plan.ID = identity.Pod{Namespace: "default", Name: fmt.Sprint("p", i), UID: fmt.Sprint("u", i)}
		all = append(all, p.Start(t.Context(), plan))
	}
	for _, pulls := range all {
		if got, err := pulls.Wait(t.Context(), "app"); err != nil || got.ImageID != "sha256:app:1" {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if r.tries["app:1"] != 1 {
		t.Errorf("%s: pulled %d times", policy, r.tries["app:1"])
	}
	// A pod that requests the image later must contact the registry again if its policy is Always.
	before := r.tries["app:1"]
	later := p.Start(t.Context(), planOf(t, spec))
	if _, err := later.Wait(t.Context(), "app"); err != nil || (r.tries["app:1"] > before) != (policy == "Always") {
		t.Errorf("%s: %v, %d pulls", policy, err, r.tries["app:1"])
	}
}

// TestAFailedPullIsNotShared checks that pods do not share a failed pull: podrun must try the pull
// for each container that requires it.
func TestAFailedPullIsNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry("app:1")
		r.slow["app:1"] = time.Second
		r.pull = func(int, *runtimeapi.PullImageRequest) error { return status.Error(codes.NotFound, "app:1: not found") }
		p := r.puller(Options{RecordDir: t.TempDir()})
		plan := planOf(t, "containers:\n"+container("app", "app:1", "Always"))
		one, two := p.Start(t.Context(), plan), p.Start(t.Context(), plan)
		for _, pulls := range []*Pulls{one, two} {
			_, err := pulls.Wait(t.Context(), "app")
			wantFailure(t, err, ReasonPull, NotFound)
		}
		if r.tries["app:1"] != 2 {
			t.Errorf("pulled %d times", r.tries["app:1"])
		}
	})
}

// TestImageUser checks the cases of kubelet-golden 43-image-user.
func TestImageUser(t *testing.T) {
	five := int64(1000)
	for _, test := range []struct {
		image    *runtimeapi.Image
		uid      *int64
		username string
	}{
		{&runtimeapi.Image{Id: "i", Uid: &runtimeapi.Int64Value{Value: 1000}}, &five, ""},
		{&runtimeapi.Image{Id: "i", Username: "app"}, nil, "app"},
		{&runtimeapi.Image{Id: "i"}, new(int64), ""},
		{&runtimeapi.Image{Id: "i", Uid: &runtimeapi.Int64Value{}, Username: "root"}, new(int64), ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRegistry()
			r.here["app:1"] = test.image
			pulls := r.puller(Options{}).Start(t.Context(), planOf(t, "containers:\n"+container("app", "app:1", "IfNotPresent")))
			got, err := pulls.Wait(t.Context(), "app")
			want := Result{ImageID: "i", UID: test.uid, Username: test.username}
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%v %s", err, diff)
			}
		})
	}
}

func TestWaitForAStranger(t *testing.T) {
	pulls := newRegistry().puller(Options{}).Start(t.Context(), Plan{ID: testID})
	if _, err := pulls.Wait(t.Context(), "nobody"); err == nil || !strings.Contains(err.Error(), "container nobody") {
		t.Errorf("error %v", err)
	}
}

// TestRetryAlways checks that podrun also retries permanent errors if RetryAlways is set.
func TestRetryAlways(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		r.pull = func(try int, _ *runtimeapi.PullImageRequest) error {
			if try < 3 {
				return status.Error(codes.NotFound, "app:1: not found")
			}
			return nil
		}
		begun := time.Now()
		pulls := r.puller(Options{RetryAlways: true}).Start(t.Context(), planOf(t, "containers:\n"+container("app", "app:1", "Always")))
		if _, err := pulls.Wait(t.Context(), "app"); err != nil || r.tries["app:1"] != 3 {
			t.Errorf("%v after %v", err, r.tries)
		}
		if took := time.Since(begun); took != 30*time.Second {
			t.Errorf("took %s, not 10 s and 20 s", took)
		}
	})
}

// TestNoHost checks a pull from a registry whose name does not resolve. podrun must retry it, because the DNS
// server may be the cause, unless a user is waiting who can correct the name.
func TestNoHost(t *testing.T) {
	for _, c := range []struct {
		opt     Options
		retries bool
	}{
		{Options{}, true},
		{Options{Attended: true}, false},
		{Options{Attended: true, RetryAlways: true}, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRegistry()
			r.pull = func(int, *runtimeapi.PullImageRequest) error {
				return status.Error(codes.Unknown, "dial tcp: lookup registry.test: no such host")
			}
			c.opt.Timeout = 15 * time.Second
			begun := time.Now()
			pulls := r.puller(c.opt).Start(t.Context(), planOf(t, "containers:\n"+container("app", "app:1", "Always")))
			_, err := pulls.Wait(t.Context(), "app")
			var e *problem.Error
			if !errors.As(err, &e) || e.Kind != problem.Image || e.Hint != NoHost.Hint() {
				t.Errorf("%+v: %v", c.opt, err)
			}
			if retried := time.Since(begun) == 15*time.Second; retried != c.retries {
				t.Errorf("%+v: ended after %s", c.opt, time.Since(begun))
			}
		})
	}
}

// TestPullTimeout checks that the time limit for one image includes its back-off, and that the
// error contains the last failure.
func TestPullTimeout(t *testing.T) {
	for what, test := range map[string]struct {
		fails error
		slow  time.Duration
		want  string
		hint  string
	}{
		"slow":    {slow: time.Hour, hint: "increase --pull-timeout", want: "ErrImagePull: not pulled after 15s"},
		"no host": {fails: status.Error(codes.Unknown, "dial tcp: lookup registry.test: no such host"), hint: NoHost.Hint(), want: "no such host"},
		"failing": {fails: status.Error(codes.Unknown, "dial tcp 127.0.0.1:1: connection refused"), hint: Unavailable.Hint(), want: "ImagePullBackOff: not pulled after 15s: dial tcp 127.0.0.1:1: connection refused"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRegistry()
			r.slow["app:1"] = test.slow
			r.pull = func(int, *runtimeapi.PullImageRequest) error { return test.fails }
			begun := time.Now()
			pulls := r.puller(Options{Timeout: 15 * time.Second}).Start(t.Context(), planOf(t, "containers:\n"+container("app", "app:1", "Always")))
			_, err := pulls.Wait(t.Context(), "app")
			var e *problem.Error
			if !errors.As(err, &e) || e.Kind != problem.Image || !strings.Contains(err.Error(), test.want) || e.Hint != test.hint {
				t.Errorf("%s: %v, want %s", what, err, test.want)
			}
			if took := time.Since(begun); took != 15*time.Second {
				t.Errorf("%s: took %s", what, took)
			}
		})
	}
}

// TestPullsForAnotherPod checks which pulls a pod can take over: finished ones of the same images with the same
// credentials.
func TestPullsForAnotherPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, finish := newRegistry(), make(chan struct{})
		r.pull = func(int, *runtimeapi.PullImageRequest) error { <-finish; return nil }
		plan := planOf(t, "containers:\n"+container("app", "r.example/app:1", "IfNotPresent"))
		next := plan
		next.ID.UID = "new"
		if (*Pulls)(nil).For(next) != nil {
			t.Error("pulls without a plan")
		}
		pulls := r.puller(Options{}).Start(t.Context(), plan)
		defer pulls.Stop()
		if pulls.For(next) != nil {
			t.Error("pulls that have not finished")
		}
		close(finish)
		if err := pulls.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		others := next
		others.PullSecrets = []*corev1.Secret{{}}
		if pulls.For(others) != nil {
			t.Error("pulls with other credentials")
		}
		taken := pulls.For(next)
		if taken == nil {
			t.Fatal("finished pulls cannot be taken over")
		}
		if _, err := taken.Wait(t.Context(), "app"); err != nil {
			t.Error(err)
		}
	})
}

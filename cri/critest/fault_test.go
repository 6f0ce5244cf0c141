package critest_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
)

// TestFaults checks the effect of each fault on a RunPodSandbox that has a deadline of a minute.
func TestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		fault critest.Fault
		code  codes.Code
		took  time.Duration
		// whether the effect is visible when the call returns
		effect bool
		// whether the effect is visible an hour later
		later bool
	}{
		"before":             {critest.Fault{When: critest.Before}, codes.Unavailable, 0, false, false},
		"before, own error":  {critest.Fault{When: critest.Before, Err: status.Error(codes.Aborted, "x")}, codes.Aborted, 0, false, false},
		"before, plain":      {critest.Fault{When: critest.Before, Err: errors.New("x")}, codes.Unknown, 0, false, false},
		"after":              {critest.Fault{When: critest.After}, codes.DeadlineExceeded, 0, true, true},
		"hang":               {critest.Fault{When: critest.Hang}, codes.DeadlineExceeded, time.Minute, false, false},
		"effect, then hang":  {critest.Fault{When: critest.EffectThenHang}, codes.DeadlineExceeded, time.Minute, true, true},
		"slow":               {critest.Fault{When: critest.Slow, Delay: 50 * time.Second}, codes.OK, 50 * time.Second, true, true},
		"too slow":           {critest.Fault{When: critest.Slow, Delay: time.Hour}, codes.DeadlineExceeded, time.Minute, false, false},
		"late, in time":      {critest.Fault{When: critest.Late, Delay: 50 * time.Second}, codes.OK, 50 * time.Second, true, true},
		"late":               {critest.Fault{When: critest.Late, Delay: 2 * time.Minute}, codes.DeadlineExceeded, time.Minute, false, true},
		"cut":                {critest.Fault{When: critest.Cut}, codes.Unavailable, 0, true, true},
		"delayed, then fail": {critest.Fault{When: critest.Before, Delay: time.Second}, codes.Unavailable, time.Second, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBox(t, func(b *box) {
				clear := b.rt.Fault("RunPodSandbox", c.fault)
				config := podConfig(b.TempDir())
				config.Metadata.Name = "faulty"
				there := func() bool {
					return slices.ContainsFunc(b.rt.Sandboxes(), func(s critest.Sandbox) bool { return s.Config.GetMetadata().GetName() == "faulty" })
				}
				ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
				defer cancel()
				begin := time.Now()
				_, err := b.c.RunPodSandbox(ctx, config, "")
				if got := status.Code(err); got != c.code || time.Since(begin) != c.took {
					b.Errorf("got %s (%v) after %v, want %s after %v", got, err, time.Since(begin), c.code, c.took)
				}
				if there() != c.effect {
					b.Errorf("on return a sandbox exists: %v, want %v", there(), c.effect)
				}
				time.Sleep(time.Hour)
				if there() != c.later {
					b.Errorf("an hour later a sandbox exists: %v, want %v", there(), c.later)
				}
				clear()
				config.Metadata.Name = "fine"
				if _, err := b.c.RunPodSandbox(b.Context(), config, ""); err != nil {
					b.Errorf("with the fault cleared: %v", err)
				}
			})
		})
	}
}

func TestFaultHitsSome(t *testing.T) {
	inBox(t, func(b *box) {
		named := func(name string) func(proto.Message) bool {
			return func(m proto.Message) bool {
				return m.(*runtimeapi.CreateContainerRequest).GetConfig().GetMetadata().GetName() == name
			}
		}
		b.rt.Fault("CreateContainer", critest.Fault{When: critest.Before, Times: 2, Skip: 1, Match: named("app")})
		var got []string
		for range 5 {
			for _, name := range []string{"app", "other"} {
				_, err := b.c.CreateContainer(b.Context(), b.sandbox, &runtimeapi.ContainerConfig{
					Metadata: &runtimeapi.ContainerMetadata{Name: name, Attempt: uint32(len(got))}, Image: &runtimeapi.ImageSpec{Image: "app"},
				}, b.config)
				got = append(got, name+" "+status.Code(err).String())
			}
		}
		want := []string{"app OK", "other OK", "app Unavailable", "other OK", "app Unavailable", "other OK", "app OK", "other OK", "app OK", "other OK"}
		if !slices.Equal(got, want) {
			b.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestFaultIsClearedAfterItMatched checks that a fault applies to a call that it has matched, even if it is cleared
// during the call, and to no later call.
func TestFaultIsClearedAfterItMatched(t *testing.T) {
	inBox(t, func(b *box) {
		var clear func()
		clear = b.rt.Fault("ListContainers", critest.Fault{When: critest.Before, Match: func(proto.Message) bool {
			clear()
			return true
		}})
		for _, want := range []codes.Code{codes.Unavailable, codes.OK} {
			if _, err := b.c.ListContainers(b.Context(), nil); status.Code(err) != want {
				b.Errorf("got %v, want %s", err, want)
			}
		}
	})
}

// TestFaultMatchUsesTheRuntime checks that Match can use the runtime, and that it is not called for a fault that no
// longer affects calls.
func TestFaultMatchUsesTheRuntime(t *testing.T) {
	inBox(t, func(b *box) {
		matched := 0
		b.rt.Fault("ListContainers", critest.Fault{When: critest.Before, Times: 1, Match: func(proto.Message) bool {
			matched++
			_, err := b.c.Version(b.Context())
			return err == nil && len(b.rt.Calls()) > 0
		}})
		for _, want := range []codes.Code{codes.Unavailable, codes.OK} {
			if _, err := b.c.ListContainers(b.Context(), nil); status.Code(err) != want {
				b.Errorf("got %v, want %s", err, want)
			}
		}
		if matched != 1 {
			b.Errorf("Match was called %d times", matched)
		}
	})
}

// TestCloseEndsLateEffects checks that a late effect that has not happened when the runtime is
// closed never happens.
func TestCloseEndsLateEffects(t *testing.T) {
	inBox(t, func(b *box) {
		b.rt.Fault("RunPodSandbox", critest.Fault{When: critest.Late, Delay: time.Hour})
		ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
		defer cancel()
		config := podConfig("")
		config.Metadata.Name = "late"
		if _, err := b.c.RunPodSandbox(ctx, config, ""); status.Code(err) != codes.DeadlineExceeded {
			b.Errorf("got %v", err)
		}
		begin := time.Now()
		b.rt.Close()
		if len(b.rt.Sandboxes()) != 1 || time.Since(begin) != 0 {
			b.Errorf("Close took %v and left %q", time.Since(begin), b.rt.Leaked())
		}
	})
}

// TestStaleLists checks that a stale list shows the state at the time when the fault was set,
// and that it applies the filter of each call.
func TestStaleLists(t *testing.T) {
	rt := critest.ForTest(t, critest.AnyImage())
	c := rt.Client()
	make := func(name string) string {
		config := podConfig("")
		config.Metadata.Name, config.Labels = name, map[string]string{"name": name}
		id, err := c.RunPodSandbox(t.Context(), config, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.CreateContainer(t.Context(), id, &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: name}, Image: &runtimeapi.ImageSpec{Image: "app"}, Labels: config.Labels}, config); err != nil {
			t.Fatal(err)
		}
		return id
	}
	old := make("old")
	for _, method := range []string{"ListPodSandbox", "ListContainers"} {
		rt.Fault(method, critest.Fault{When: critest.Stale, Times: 3})
	}
	make("new")
	if err := c.RemovePodSandbox(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		labels map[string]string
		names  []string
	}{
		{nil, []string{"old"}},
		{map[string]string{"name": "old"}, []string{"old"}},
		{map[string]string{"name": "new"}, nil},
		// The fault has applied three times and no longer applies.
		{nil, []string{"new"}},
	} {
		boxes, err := c.ListPodSandbox(t.Context(), want.labels)
		containers, err2 := c.ListContainers(t.Context(), want.labels)
		var names, in []string
		for _, b := range boxes {
			names = append(names, b.GetMetadata().GetName())
		}
		for _, c := range containers {
			in = append(in, c.GetMetadata().GetName())
		}
		if err != nil || err2 != nil || !slices.Equal(names, want.names) || !slices.Equal(in, want.names) {
			t.Errorf("call %d: sandboxes %q (%v), containers %q (%v), want %q", i, names, err, in, err2, want.names)
		}
	}
}

package critest_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
)

func TestCalls(t *testing.T) {
	inBox(t, func(b *box) {
		id := b.mustStart("app", "sleep", "100")
		if _, err := b.c.ExecSync(b.Context(), id, []string{"sleep", "3"}, 0); err != nil {
			b.Fatal(err)
		}
		if _, err := b.c.Images.Pull(b.Context(), &runtimeapi.ImageSpec{Image: "x:1"}, nil, nil); err != nil {
			b.Fatal(err)
		}
		if _, err := b.c.ContainerStatus(b.Context(), "gone", false); err == nil {
			b.Error("no error for a container that does not exist")
		}
		want := []string{"RunPodSandbox", "CreateContainer app", "StartContainer app", "ExecSync app", "PullImage x:1", "ContainerStatus"}
		if got := b.rt.CallNames(); !slices.Equal(got, want) {
			b.Errorf("got %q, want %q", got, want)
		}
		if got := b.rt.Changes(); !slices.Equal(got, want[:5]) {
			b.Errorf("got changes %q, want %q", got, want[:5])
		}
		if got := b.rt.CallNames("StartContainer", "PullImage"); !slices.Equal(got, []string{want[2], want[4]}) {
			b.Errorf("got %q", got)
		}
		calls := b.rt.Calls()
		if exec := calls[3]; exec.End.Sub(exec.Start) != 3*time.Second || exec.Err != nil {
			b.Errorf("ExecSync: %+v", exec)
		}
		if r := calls[1].Request.(*runtimeapi.CreateContainerRequest); r.GetConfig().GetCommand()[0] != "sleep" {
			b.Errorf("CreateContainer: %v", r)
		}
		if status.Code(calls[5].Err) != codes.NotFound {
			b.Errorf("ContainerStatus: %v", calls[5].Err)
		}
		b.rt.ForgetCalls()
		if got := b.rt.CallNames(); len(got) != 0 {
			b.Errorf("forgotten calls: %q", got)
		}
	})
}

// TestMessagesAreCopied checks that later changes of the caller to a message do not affect the
// runtime, and vice versa.
func TestMessagesAreCopied(t *testing.T) {
	inBox(t, func(b *box) {
		b.config.Metadata.Name = "changed"
		resp, err := b.c.PodSandboxStatus(b.Context(), b.sandbox)
		if err != nil || resp.GetMetadata().GetName() != "pod" {
			b.Fatalf("got %v, %v", resp, err)
		}
		resp.Metadata.Name = "changed"
		if got := b.rt.Sandboxes()[0].Config.GetMetadata().GetName(); got != "pod" {
			b.Errorf("the runtime's own name is %s", got)
		}
		b.rt.Sandboxes()[0].Config.Metadata.Name = "changed"
		if got := b.rt.Calls()[0].Request.(*runtimeapi.RunPodSandboxRequest).GetConfig().GetMetadata().GetName(); got != "pod" {
			b.Errorf("the record's name is %s", got)
		}
	})
}

// TestContext checks that the fake runtime returns the same status codes as a gRPC client when a
// context is canceled or its deadline expires.
func TestContext(t *testing.T) {
	inBox(t, func(b *box) {
		b.rt.ForgetCalls()
		b.rt.Fault("Version", critest.Fault{When: critest.Hang})
		ctx, cancel := context.WithCancel(b.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := b.c.Version(ctx); status.Code(err) != codes.Canceled {
			b.Errorf("canceled: %v", err)
		}
		if _, err := b.c.Version(ctx); status.Code(err) != codes.Canceled {
			b.Errorf("canceled before: %v", err)
		}
		begin := time.Now()
		if _, err := b.c.Version(b.Context()); status.Code(err) != codes.DeadlineExceeded || time.Since(begin) != 7*time.Second {
			b.Errorf("the client's own limit: %v after %v", err, time.Since(begin))
		}
		if got := b.rt.CallNames(); len(got) != 2 {
			b.Errorf("calls %q, want two, because the call that was canceled before was never sent", got)
		}
	}, critest.Timeout(7*time.Second))
}

func TestTimesIncrease(t *testing.T) {
	inBox(t, func(b *box) {
		id := b.mustStart("app", "true")
		synctest.Wait()
		resp, err := b.c.ContainerStatus(b.Context(), id, false)
		if err != nil {
			b.Fatal(err)
		}
		st := resp.GetStatus()
		times := []int64{b.rt.Sandboxes()[0].CreatedAt.UnixNano(), st.GetCreatedAt(), st.GetStartedAt(), st.GetFinishedAt()}
		for i := range times[1:] {
			if times[i+1] <= times[i] {
				b.Errorf("times %v do not increase", times)
			}
		}
	})
}

func TestEvents(t *testing.T) {
	inBox(t, func(b *box) {
		stream, err := b.c.Runtime.GetContainerEvents(b.Context(), &runtimeapi.GetEventsRequest{})
		if err != nil {
			b.Fatal(err)
		}
		synctest.Wait()
		id := b.mustStart("app", "sleep", "60")
		time.Sleep(time.Hour)
		if err := b.c.RemoveContainer(b.Context(), id); err != nil {
			b.Fatal(err)
		}
		for _, want := range []runtimeapi.ContainerEventType{
			runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT,
			runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT,
		} {
			e, err := stream.Recv()
			if err != nil {
				b.Fatal(err)
			}
			if e.GetContainerEventType() != want || e.GetContainerId() != id || e.GetPodSandboxStatus().GetId() != b.sandbox {
				b.Errorf("got %v, want %s", e, want)
			}
		}
		b.rt.Close()
		if _, err := stream.Recv(); err == nil {
			b.Error("the stream continues after Close")
		}
	})
}

func TestOptions(t *testing.T) {
	inBox(t, func(b *box) {
		ctx := b.Context()
		if r, err := b.c.RuntimeConfig(ctx); r != nil || err != nil {
			b.Errorf("RuntimeConfig: %v, %v", r, err)
		}
		v, err := b.c.Version(ctx)
		if err != nil || v.GetRuntimeName() != "containerd" || v.GetRuntimeVersion() != "v1.6.20-fake" {
			b.Errorf("Version: %v, %v", v, err)
		}
		b.rt.SetCondition(runtimeapi.NetworkReady, false, "NetworkPluginNotReady", "cni config uninitialized")
		st, err := b.c.Status(ctx, false)
		if err != nil || len(st.GetStatus().GetConditions()) != 2 || st.GetStatus().GetConditions()[1].GetStatus() || len(st.GetRuntimeHandlers()) != 0 {
			b.Errorf("Status: %v, %v", st, err)
		}
	})
	inBox(t, func(b *box) {
		ctx := b.Context()
		if r, err := b.c.RuntimeConfig(ctx); err != nil || r.GetLinux().GetCgroupDriver() != runtimeapi.CgroupDriver_CGROUPFS {
			b.Errorf("RuntimeConfig: %v, %v", r, err)
		}
		if v, err := b.c.Version(ctx); err != nil || v.GetRuntimeName() != "cri-o" || v.GetRuntimeVersion() != "1.33.0" {
			b.Errorf("Version: %v, %v", v, err)
		}
		st, err := b.c.Status(ctx, true)
		if err != nil || len(st.GetRuntimeHandlers()) != 1 || !st.GetFeatures().GetSupplementalGroupsPolicy() {
			b.Errorf("Status: %v, %v", st, err)
		}
		stream, err := b.c.Runtime.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := stream.Recv(); status.Code(err) != codes.Unimplemented {
			b.Errorf("GetContainerEvents: %v", err)
		}
		config := podConfig("")
		config.Metadata.Name = "kata"
		id, err := b.c.RunPodSandbox(ctx, config, "kata")
		if err != nil {
			b.Fatal(err)
		}
		p, err := b.c.PodSandboxStatus(ctx, id)
		if err != nil || p.GetNetwork().GetIp() != "10.1.0.3" || p.GetNetwork().GetAdditionalIps()[0].GetIp() != "fd00::3" || p.GetRuntimeHandler() != "kata" {
			b.Errorf("PodSandboxStatus: %v, %v", p, err)
		}
	}, critest.CgroupDriver(runtimeapi.CgroupDriver_CGROUPFS), critest.Version("cri-o", "1.33.0"), critest.NoEvents(),
		critest.Handler("kata", nil), critest.Features(&runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true}),
		critest.PodRange("10.1.0.0/24", "fd00::/64"))
}

// TestSocket checks that events, faults and contexts also work over the socket.
func TestSocket(t *testing.T) {
	rt := critest.ForTest(t, critest.AnyImage())
	socket := filepath.Join(t.TempDir(), "s")
	stop, err := rt.Serve(socket)
	if err != nil {
		t.Fatal(err)
	}
	c := dialer(t, "unix://"+socket)()
	defer c.Close()
	stream, err := c.Runtime.GetContainerEvents(t.Context(), &runtimeapi.GetEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	// When the stream is open, the server has added its listener. The listener does not receive
	// earlier events.
	received := make(chan *runtimeapi.ContainerEventResponse)
	go func() {
		defer close(received)
		for {
			e, err := stream.Recv()
			if err != nil {
				return
			}
			received <- e
		}
	}()
	var first *runtimeapi.ContainerEventResponse
	for n := 0; first == nil; n++ {
		config := podConfig("")
		config.Metadata.Attempt = uint32(n)
		if _, err := c.RunPodSandbox(t.Context(), config, ""); err != nil {
			t.Fatal(err)
		}
		select {
		case first = <-received:
		case <-time.After(10 * time.Millisecond):
		}
	}
	if first.GetContainerEventType() != runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT || first.GetPodSandboxStatus().GetMetadata().GetName() != "pod" {
		t.Errorf("got %v", first)
	}
	rt.Fault("Version", critest.Fault{When: critest.Hang})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Version(ctx); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("Version: %v", err)
	}
	// A call that is cut still takes effect, and the next call connects again.
	rt.Fault("RemovePodSandbox", critest.Fault{When: critest.Cut, Times: 1})
	if _, err := c.Runtime.RemovePodSandbox(t.Context(), &runtimeapi.RemovePodSandboxRequest{PodSandboxId: first.GetContainerId()}); status.Code(err) != codes.Unavailable {
		t.Errorf("RemovePodSandbox: %v", err)
	}
	if boxes, err := c.ListPodSandbox(t.Context(), nil); err != nil || slices.ContainsFunc(boxes, func(b *runtimeapi.PodSandbox) bool { return b.GetId() == first.GetContainerId() }) {
		t.Errorf("after a cut: %v, %v", boxes, err)
	}
	stop()
	for range received {
	}
	if _, err := c.Version(t.Context()); status.Code(err) != codes.Unavailable {
		t.Errorf("stopped: %v", err)
	}
	if _, err := os.Stat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket still exists: %v", err)
	}
}

package cri_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/cri/critest"
)

// TestRemovalWithoutARecord checks that podrun can remove a container and its sandbox after another
// program has removed containerd's record of the container. No record may remain. If that is
// impossible, the error must state that the runtime still lists the object.
func TestRemovalWithoutARecord(t *testing.T) {
	refusal := status.Error(codes.PermissionDenied, "no")
	for name, test := range map[string]struct {
		// whether podrun removes the sandbox instead of the container
		sandbox bool
		ended   bool   // whether the container has exited
		crio    bool   // whether the runtime lacks containerd's own services
		fault   string // the method that fails when it is called
		err     error
		// expected parts of the error; if empty, no error is expected
		want []string
	}{
		"the container":            {},
		"the ended container":      {ended: true},
		"the sandbox":              {sandbox: true},
		"the sandbox of an ended":  {sandbox: true, ended: true},
		"the record is refused":    {sandbox: true, fault: "Create", err: refusal, want: []string{"get container info", "the runtime still lists the object", "code = PermissionDenied", "restart the runtime"}},
		"the record does not help": {sandbox: true, fault: "RemovePodSandbox", err: status.Error(codes.NotFound, "no such thing"), want: []string{"no such thing", "the runtime still lists the object", "restart the runtime"}},
		"the container stays":      {fault: "RemoveContainer", err: status.Error(codes.NotFound, "no such thing"), want: []string{"no such thing", "the runtime still lists the object"}},
		"not containerd":           {crio: true, sandbox: true, fault: "RemovePodSandbox", err: status.Error(codes.NotFound, "no such thing"), want: []string{"no such thing", "supported only with containerd", "restart the runtime"}},
		"the list is refused":      {fault: "ListContainers", err: refusal, want: []string{"get container info", "code = PermissionDenied"}},
	} {
		t.Run(name, func(t *testing.T) {
			profile := critest.Containerd()
			if test.crio {
				profile = critest.CRIO()
			}
			rt, c := served(t, critest.As(profile))
			config := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "u"}}
			sandbox, err := c.RunPodSandbox(t.Context(), config, "")
			if err != nil {
				t.Fatal(err)
			}
			id, err := c.CreateContainer(t.Context(), sandbox, &runtimeapi.ContainerConfig{
				Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: "busybox", UserSpecifiedImage: "busybox"}}, config)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.StartContainer(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			if test.ended {
				if err := rt.Exit("app", 0); err != nil {
					t.Fatal(err)
				}
			}
			if !rt.RemoveRecord(id) {
				t.Fatal("the container does not exist")
			}
			if test.fault != "" {
				rt.Fault(test.fault, critest.Fault{Err: test.err})
			}
			if test.sandbox {
				err = c.RemovePodSandbox(t.Context(), sandbox)
			} else {
				err = c.RemoveContainer(t.Context(), id)
			}
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
			}
			if left := len(rt.Containers()) > 0; left != (len(test.want) > 0) || (err != nil) != left {
				t.Errorf("%v; left: %v", err, rt.Leaked())
			}
			if records := rt.Records(); len(records) > 0 {
				t.Errorf("the restored records %v remain", records)
			}
		})
	}
}

// TestRestoredRecordOfAKilledPodrun checks that podrun finds and removes a record that a killed
// podrun process has restored. It must not remove a record that another podrun process may be
// using.
func TestRestoredRecordOfAKilledPodrun(t *testing.T) {
	rt, c := served(t)
	sandbox, err := c.RunPodSandbox(t.Context(), &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "u"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	id, err := c.CreateContainer(t.Context(), sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: "busybox"}}, &runtimeapi.PodSandboxConfig{})
	if err != nil {
		t.Fatal(err)
	}
	rt.RemoveRecord(id)
	rt.Fault("RemoveContainer", critest.Fault{When: critest.Hang, Skip: 1})
	rt.Fault("Delete", critest.Fault{})
	if err := c.RemoveContainer(t.Context(), id); err == nil {
		t.Fatal("the removal did not fail")
	}
	if got, err := c.Containerd.Restored(t.Context(), time.Hour); err != nil || len(got) > 0 {
		t.Errorf("of the last hour: %v, %v", got, err)
	}
	got, err := c.Containerd.Restored(t.Context(), 0)
	if err != nil || len(got) != 1 || got[0] != id {
		t.Fatalf("%v, %v, want %s", got, err, id)
	}
}

// served returns a fake runtime on a socket, and a client connected to it.
func served(t *testing.T, opts ...critest.Option) (*critest.Runtime, *cri.Client) {
	t.Helper()
	rt := critest.New(append(opts, critest.AnyImage())...)
	t.Cleanup(rt.Close)
	dir := t.TempDir()
	stop, err := rt.Serve(filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	c, err := cri.Dial("unix://"+filepath.Join(dir, "s"), "", 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return rt, c
}

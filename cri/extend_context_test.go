package cri_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/cri/critest"
)

// TestNetworkIsReleasedToTheEnd checks that the end of a command does not interrupt the calls that
// release a sandbox's network (faults.md, F6). These calls may continue for at most 5 s after the
// command's end.
func TestNetworkIsReleasedToTheEnd(t *testing.T) {
	for method, call := range map[string]func(*cri.Client, context.Context, string) error{
		"StopPodSandbox": (*cri.Client).StopPodSandbox, "RemovePodSandbox": (*cri.Client).RemovePodSandbox,
	} {
		for name, tc := range map[string]struct {
			fault critest.Fault
			took  time.Duration
			ok    bool
		}{
			"slow":  {critest.Fault{When: critest.Slow, Delay: 4 * time.Second}, 4 * time.Second, true},
			"stuck": {critest.Fault{When: critest.Hang}, 6 * time.Second, false},
		} {
			t.Run(method+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rt := critest.ForTest(t)
					id, err := rt.Client().RunPodSandbox(t.Context(), &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "a"}}, "")
					if err != nil {
						t.Fatal(err)
					}
					rt.Fault(method, tc.fault)
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					begun := time.Now()
					err = call(rt.Client(), ctx, id)
					if took := time.Since(begun); (err == nil) != tc.ok || took != tc.took {
						t.Errorf("%v after %v, want %v after %v", err, took, tc.ok, tc.took)
					}
				})
			})
		}
	}
}

package critest_test

import (
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/test/patience"
)

// TestCloseEndsUnusedStreams checks Close after an interrupted client did not connect to the URL of
// its stream.
func TestCloseEndsUnusedStreams(t *testing.T) {
	rt := critest.New(critest.AnyImage())
	id, err := rt.Client().RunPodSandbox(t.Context(), podConfig(""), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rt.PortForward(t.Context(), &runtimeapi.PortForwardRequest{PodSandboxId: id}); err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	go func() {
		rt.Close()
		close(closed)
	}()
	patience.Receive(t, "Close returns", closed)
}

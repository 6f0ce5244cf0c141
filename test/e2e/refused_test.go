package e2e

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/test/patience"
)

// TestAnothersPod covers a pod of another program on this runtime. podrun must not use the pod's
// name, and delete must not affect the pod.
func TestAnothersPod(t *testing.T) {
	r := newRig(t)
	client, err := cri.Dial(os.Getenv("CONTAINER_RUNTIME_ENDPOINT"), "", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	const uid = "5b1f7a52-1111-4222-8333-0123456789ab"
	id := identity.Pod{Namespace: "e2e", Name: "taken", UID: uid}
	host := &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE}
	box, err := client.RunPodSandbox(t.Context(), &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Namespace: id.Namespace, Name: id.Name, Uid: id.UID}, Labels: id.Labels(),
		Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: host}},
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := patience.Context(context.Background(), patience.OnRuntime)
		defer cancel()
		if err := client.StopPodSandbox(ctx, box); err != nil {
			t.Error(err)
		}
		if err := client.RemovePodSandbox(ctx, box); err != nil {
			t.Error(err)
		}
	})
	pod := r.pod("taken", "\napiVersion: v1\nkind: Pod\nmetadata: {name: taken}\nspec: {dnsPolicy: Default, containers: [{name: app, image: IMAGE}]}\n")
	out, err := r.podrun("apply", pod)
	if err == nil || !strings.Contains(out, "another program runs a pod e2e/taken on this host (uid "+uid+")") {
		t.Errorf("apply: %v\n%s", err, out)
	}
	r.must("delete", "taken", "--ignore-not-found")
	r.must("delete", "--all", "-A")
	if st, err := client.PodSandboxStatus(t.Context(), box); err != nil || st.GetState() != runtimeapi.PodSandboxState_SANDBOX_READY {
		t.Errorf("the other program's pod was changed: %v, %v", st, err)
	}
}

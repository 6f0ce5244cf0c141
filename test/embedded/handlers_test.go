package embedded

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podrun/podrun/test/ring"
)

// TestNewHandlers checks that an OCI runtime that is installed while containerd runs becomes a handler. If
// there are no pods, the next command restarts containerd; if there are pods, only `runtime up` restarts
// it, and the containers keep running.
func TestNewHandlers(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	const dir = "/opt/kata/bin" // one of the directories that podrun searches
	if _, err := os.Lstat(filepath.Dir(dir)); err == nil {
		t.Skipf("%s exists on this host", filepath.Dir(dir))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(filepath.Dir(dir)); err != nil {
			t.Error(err)
		}
	})
	install := func(program string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.write("class.yaml", strings.Replace(fmt.Sprintf(podText, imageName, r.port), "spec:\n", "spec:\n  runtimeClassName: c\n", 1)+"---\n{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: c}, handler: youki}\n")

	r.must("runtime", "up")
	pid := r.daemon().PID
	install("containerd-shim-kata-v2")
	r.must("apply", "pod.yaml")
	if now := r.daemon().PID; now == pid {
		t.Error("without pods, apply did not restart containerd")
	} else {
		pid = now
	}
	r.answers()

	install("youki")
	r.must("apply", "pod.yaml")
	r.fails(122, `the runtime has no handler "youki" yet: /opt/kata/bin/youki was installed after the runtime had been started`, "plan", "class.yaml")
	if now := r.daemon().PID; now != pid {
		t.Error("with a pod, a command restarted containerd")
	}
	before := r.containersOf()
	r.must("runtime", "up")
	if now := r.daemon().PID; now == pid {
		t.Error("runtime up did not restart containerd")
	}
	r.answers()
	if after := r.containersOf(); before != 1 || after != 1 {
		t.Errorf("%d containers, then %d", before, after)
	}
	if out, err := r.run(bundle, "plan", "class.yaml"); strings.Contains(out, "no handler") {
		t.Errorf("plan: %v\n%s", err, out)
	}
	pid = r.daemon().PID
	if r.must("runtime", "up"); r.daemon().PID != pid {
		t.Error("runtime up restarted containerd again")
	}
}

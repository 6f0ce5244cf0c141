package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podrun/podrun/test/ring"
)

// otherRuntime starts a second containerd only for this test. It returns the address of its
// socket.
func otherRuntime(t *testing.T) string {
	t.Helper()
	shared := filepath.Dir(strings.TrimPrefix(os.Getenv("CONTAINER_RUNTIME_ENDPOINT"), "unix://"))
	env := append(os.Environ(), fmt.Sprintf("PODRUN_RUNTIME_DIR=%s/e2e-%d", filepath.Dir(shared), os.Getpid()))
	hack := func(word string) (string, error) {
		c := exec.Command("../../hack/runtime", word)
		var stderr bytes.Buffer
		c.Env, c.Stderr = env, &stderr
		out, err := c.Output()
		if err != nil {
			err = fmt.Errorf("hack/runtime %s: %w: %s", word, err, &stderr)
		}
		return string(out), err
	}
	t.Cleanup(func() {
		if _, err := hack("down"); err != nil {
			t.Error(err)
		}
	})
	exports, err := hack("up")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(exports) {
		if address, ok := strings.CutPrefix(strings.TrimSpace(line), "export CONTAINER_RUNTIME_ENDPOINT="); ok {
			return address
		}
	}
	t.Fatalf("no address of the second runtime:\n%s", exports)
	return ""
}

// TestRootDirsWithOneCgroupRoot covers two root directories that use separate containerds but the
// same cgroup root, as parallel CI jobs do. The deletion of the pod in one root directory must not
// affect the pod in the other.
func TestRootDirsWithOneCgroupRoot(t *testing.T) {
	ring.Require(t, 2)
	a := newRig(t)
	address := otherRuntime(t)
	b := &rig{T: t, dir: t.TempDir(), host: a.host}
	other := func(args ...string) (string, error) {
		return b.podrun(append([]string{"--container-runtime-endpoint", address}, args...)...)
	}
	t.Cleanup(func() { _, _ = other("delete", "--all", "--grace-period", "0") })
	running := func(name string) string {
		t.Helper()
		a.must("exec", name, "--", "true")
		return a.must("get", "pod", name, "-o", "jsonpath={.metadata.uid} {.status.containerStatuses[0].containerID} {.status.containerStatuses[0].restartCount}")
	}
	const text = "apiVersion: v1\nkind: Pod\nmetadata: {name: twin}\nspec:\n  terminationGracePeriodSeconds: 0\n  containers: [{name: c, image: IMAGE, command: [sleep, '3600']}]\n"
	for _, tc := range []struct {
		name, text string
		refused    bool
	}{
		{"twin", text, false},
		{"fixed", strings.Replace(text, "name: twin", "name: fixed, uid: 11111111-2222-3333-4444-555555555555", 1), true},
	} {
		file := a.pod(tc.name, tc.text)
		a.must("apply", file)
		before := running(tc.name)
		out, err := other("apply", file)
		if tc.refused {
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 122 || !strings.Contains(out, a.dir+"/root") {
				t.Errorf("%s: %v\n%s", tc.name, err, out)
			}
			if dirs, err := filepath.Glob(b.dir + "/root/pods/*"); err != nil || len(dirs) > 0 {
				t.Errorf("%s: it left %v, %v", tc.name, dirs, err)
			}
		} else {
			if err != nil {
				t.Fatalf("%s: %v\n%s", tc.name, err, out)
			}
			if out, err := other("exec", tc.name, "--", "true"); err != nil {
				t.Errorf("%s: %v\n%s", tc.name, err, out)
			}
			if out, err := other("delete", tc.name); err != nil {
				t.Errorf("%s: %v\n%s", tc.name, err, out)
			}
		}
		if out, err := other("gc"); err != nil {
			t.Errorf("gc: %v\n%s", err, out)
		}
		if after := running(tc.name); after != before {
			t.Errorf("%s is %s, was %s", tc.name, after, before)
		}
	}
}

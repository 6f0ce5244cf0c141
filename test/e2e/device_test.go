package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podrun/podrun/test/ring"
)

// TestDevices checks that containers that request an extended resource get different devices of
// --device, which the runtime provides with CDI. A containerd without CDI would ignore the
// devices, so podrun must refuse the pod.
func TestDevices(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	dir := os.Getenv("PODRUN_TEST_CDI_DIR")
	if dir == "" {
		t.Skip("PODRUN_TEST_CDI_DIR is not set: no directory of CDI specifications")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	spec := filepath.Join(dir, "podrun-test.json")
	t.Cleanup(func() { os.Remove(spec) })
	text := `{"cdiVersion": "0.5.0", "kind": "podrun.test/thing", "devices": [
		{"name": "a", "containerEdits": {"env": ["THING_A=yes"], "deviceNodes": [{"path": "/dev/thing-a", "type": "c", "major": 1, "minor": 3}]}},
		{"name": "b", "containerEdits": {"env": ["THING_B=yes"]}}]}`
	if err := os.WriteFile(spec, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--device", "example.com/thing=podrun.test/thing=a", "--device", "example.com/thing=podrun.test/thing=b"}
	pod := func(name string) string {
		return r.pod(name, `
apiVersion: v1
kind: Pod
metadata: {name: `+name+`}
spec:
  dnsPolicy: Default
  terminationGracePeriodSeconds: 0
  containers:
    - name: app
      image: IMAGE
      command: [sh, -c, 'echo A=$THING_A B=$THING_B; ls /dev; echo listed; sleep 1000']
      resources: {limits: {example.com/thing: 1}}
`)
	}
	out, err := r.podrun(append(flags, "apply", pod("one"))...)
	if strings.Contains(out, "does not add CDI devices to containers") {
		if err == nil {
			t.Error("the pod was refused with exit code 0")
		}
		t.Log("this runtime does not support CDI: the pod was refused")
		return
	}
	if err != nil {
		t.Fatal(out)
	}
	if logs := r.until("one", "listed"); !strings.Contains(logs, "A=yes B=\n") || !strings.Contains(logs, "thing-a") {
		t.Errorf("the first has\n%s", logs)
	}
	r.must(append(flags, "apply", pod("two"))...)
	if logs := r.until("two", "listed"); !strings.Contains(logs, "A= B=yes\n") || strings.Contains(logs, "thing-a") {
		t.Errorf("the second has\n%s", logs)
	}
	if out, err := r.podrun(append(flags, "apply", pod("three"))...); err == nil || !strings.Contains(out, "Node didn't have enough resource: example.com/thing, requested: 1, used: 2, capacity: 2") {
		t.Errorf("a third: %v\n%s", err, out)
	}
	// A restarted pod must get devices that are free at that time.
	r.must("stop", "one")
	r.must(append(flags, "apply", pod("three"))...)
	if logs := r.until("three", "listed"); !strings.Contains(logs, "A=yes B=\n") {
		t.Errorf("the third has\n%s", logs)
	}
	r.must("delete", "two")
	r.must(append(flags, "start", "one")...)
	if logs := r.until("one", "B=yes"); !strings.Contains(logs, "A= B=yes\n") {
		t.Errorf("the first has now\n%s", logs)
	}
	// podrun must refuse a device without a specification, because the runtime could not create the
	// container.
	out, err = r.podrun(append(flags, "--device", "example.com/thing=podrun.test/thing=c", "apply", pod("four"))...)
	if err == nil || !strings.Contains(out, "requires the device podrun.test/thing=c, which no CDI specification of "+dir+" defines") {
		t.Errorf("an unknown device: %v\n%s", err, out)
	}
}

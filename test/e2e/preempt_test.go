package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPreempt covers a critical pod that needs the memory of another pod. podrun must stop the
// other pod within its grace period, and must not start the stopped pod again before resources are
// free.
func TestPreempt(t *testing.T) {
	r := newRig(t)
	var total int64
	data, err := os.ReadFile("/proc/meminfo")
	if err == nil {
		_, err = fmt.Sscanf(string(data), "MemTotal: %d kB", &total)
	}
	if err != nil {
		t.Fatal(err)
	}
	pod := func(name, spec string) string {
		return r.pod(name, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  dnsPolicy: Default
  terminationGracePeriodSeconds: 20
  %s
  containers:
    - name: app
      image: IMAGE
      command: [sh, -c, 'trap "echo told to stop > /out/%s; exit 0" TERM; echo up; while :; do sleep 0.1; done']
      resources: {requests: {memory: %dKi}}
      volumeMounts: [{name: out, mountPath: /out}]
  volumes: [{name: out, hostPath: {path: %s}}]
`, name, spec, name, total*6/10, r.dir))
	}
	r.must("apply", pod("plain", "priority: 0"))
	r.until("plain", "up")
	critical := pod("critical", "priorityClassName: system-node-critical")
	out, err := r.podrun("apply", critical, "--preempt=false")
	if err == nil || !strings.Contains(out, "Node didn't have enough resource: memory") {
		t.Fatalf("without preemption: %v\n%s", err, out)
	}
	if out := r.must("plan", "--full", critical); !strings.Contains(out, "preempts:\n  - name: plain") {
		t.Errorf("the plan does not name the preempted pod")
	}
	if out := r.must("apply", critical); !strings.Contains(out, "Preempted in order to admit critical pod") {
		t.Errorf("the preemption is not reported:\n%s", out)
	}
	if _, err := os.ReadFile(filepath.Join(r.dir, "plain")); err != nil {
		t.Errorf("the pod did not receive SIGTERM: %v", err)
	}
	if out := r.must("get"); !strings.Contains(out, "critical   1/1     Running") || strings.Contains(out, "plain      1/1") {
		t.Errorf("the pods are\n%s", out)
	}
	if out, err := r.podrun("start", "plain"); err == nil || !strings.Contains(out, "Node didn't have enough resource: memory") {
		t.Errorf("the stopped pod does not run again: %v\n%s", err, out)
	}
	r.must("delete", "critical")
	r.must("start", "plain")
}

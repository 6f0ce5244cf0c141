package rootless

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podrun/podrun/test/patience"
	"github.com/podrun/podrun/test/ring"
)

// probedPods is the number of pods of TestProbes; each has two HTTP probes.
const probedPods = 50

// TestProbes runs 50 pods with 100 HTTP probes under serve, and prints the CPU time and the private memory of serve and
// podrun-rootless for a minute. All pods become ready, none is restarted, and no probe fails.
func TestProbes(t *testing.T) {
	ring.Require(t, 3)
	u := newUser(t, true)
	for i := range probedPods {
		u.write(fmt.Sprintf("manifests/web%d.yaml", i), fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: web%d}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: web
    image: %s
    command: [httpd, -f, -p, "8080", -h, /www]
    readinessProbe: {httpGet: {port: 8080}, periodSeconds: 10, timeoutSeconds: 10, initialDelaySeconds: 5}
    livenessProbe: {httpGet: {port: 8080}, periodSeconds: 10, timeoutSeconds: 10, initialDelaySeconds: 5}
`, i, usersImage))
	}
	ctx, cancel := patience.Context(context.Background(), 10*patience.OnRuntime)
	defer cancel()
	c := u.command(ctx, bundle, "serve", filepath.Join(u.home, "manifests"))
	var out strings.Builder
	c.Stdout, c.Stderr = &out, &out
	u.check(c.Start())
	patience.Wait(t, 5*patience.OnRuntime, "the pods are not ready", func() bool {
		pods, err := u.run("get", "--no-headers")
		return err == nil && strings.Count(pods, " 1/1 ") == probedPods
	})
	processes := map[string]int{"podrun serve": c.Process.Pid, "podrun-rootless": u.record().PID}
	before := map[string]float64{}
	for name, pid := range processes {
		before[name] = processorSeconds(u, pid)
	}
	minute, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	<-minute.Done()
	for name, pid := range processes {
		t.Logf("%s: %.2f s of CPU time in a minute, %s kB of private memory", name, processorSeconds(u, pid)-before[name], privateMemory(u, pid))
	}
	pods := u.must("get", "--no-headers")
	for line := range strings.Lines(pods) {
		if f := strings.Fields(line); len(f) > 3 && (f[1] != "1/1" || f[3] != "0") {
			t.Errorf("a pod is not ready, or was restarted: %s", line)
		}
	}
	if events := u.must("events"); strings.Contains(events, "Unhealthy") {
		t.Errorf("a probe has failed:\n%s", events)
	}
	u.check(c.Process.Signal(syscall.SIGTERM))
	if err := c.Wait(); err != nil {
		t.Errorf("serve: %v\n%s", err, out.String())
	}
}

// processorSeconds returns the CPU time of a process.
func processorSeconds(u *user, pid int) float64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	u.check(err)
	_, text, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(text)
	ticks := 0
	for _, f := range fields[11:13] { // utime and stime
		n, err := strconv.Atoi(f)
		u.check(err)
		ticks += n
	}
	return float64(ticks) / 100
}

// privateMemory returns the anonymous memory of a process in kB.
func privateMemory(u *user, pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	u.check(err)
	_, text, _ := strings.Cut(string(data), "RssAnon:")
	return strings.Fields(text)[0]
}

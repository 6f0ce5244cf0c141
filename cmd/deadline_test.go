package cmd

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/test/ring"
)

// TestDeadlineIncludesStart checks that --timeout limits the wait for a containerd that does not finish
// its start, and the reading of the settings.
func TestDeadlineIncludesStart(t *testing.T) {
	ring.RequireRoot(t) // only root starts the embedded runtime
	dir := t.TempDir()
	root, manifest := filepath.Join(dir, "root"), filepath.Join(dir, "pod.yaml")
	layout := embedded.ReadLayout(root)
	t.Cleanup(func() { _ = os.RemoveAll(layout.State()) })
	for _, dir := range []string{layout.State(), layout.Containerd()} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	process := exec.Command("sleep", "3600")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	d, err := embedded.Identify(t.Context(), process.Process.Pid)
	d.Digest, d.Starting = strings.Repeat("0", 64), true
	data, merr := json.Marshal(d)
	if err != nil || merr != nil {
		t.Fatal(err, merr)
	}
	for path, text := range map[string]string{layout.Daemon(): string(data), manifest: "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: busybox}]}}"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := embedded.WriteChoice(layout, embedded.Choice{Kind: embedded.Own, Digest: d.Digest}); err != nil {
		t.Fatal(err)
	}
	// The first call of signal.Notify starts goroutines that must not belong to a bubble.
	received := make(chan os.Signal, 1)
	signal.Notify(received, syscall.SIGUSR1)
	signal.Stop(received)
	for _, words := range []string{"apply " + manifest, "run " + manifest, "run -d " + manifest, "delete web", "delete svc x", "wait web", "restart web", "stop web", "start web", "gc",
		"image pull x", "scale deploy/x --replicas=2", "set image pod/web c=x", "rollout status pod/web", "rollout restart pod/web", "exec web -- true", "debug web --image=x", "get -w", "create job x --from=cronjob/y"} {
		args := append(strings.Fields(words), "--timeout=300ms", "--root-dir="+root, "--runtime=embedded")
		if before, after, ok := strings.Cut(words, " -- "); ok {
			args = append(strings.Fields(before), "--timeout=300ms", "--root-dir="+root, "--runtime=embedded", "--", after)
		}
		// The limit expires while podrun waits for containerd, or has expired before podrun reads its settings.
		for _, spent := range []time.Duration{0, time.Second} {
			var out, stderr bytes.Buffer
			var code int
			// In a bubble, the limit does not expire while podrun works.
			synctest.Test(t, func(t *testing.T) {
				code = Main(t.Context(), args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &stderr}, "test", time.Now().Add(-spent))
			})
			if code != exit.Deadline || !strings.Contains(stderr.String(), "timed out after 300ms") {
				t.Errorf("podrun %s after %s: exit code %d, want %d\n%s", words, spent, code, exit.Deadline, stderr.String())
			}
			if spent == 0 && !strings.Contains(stderr.String(), "containerd") {
				t.Errorf("podrun %s does not name containerd:\n%s", words, stderr.String())
			}
		}
		if !d.Alive() {
			t.Fatalf("podrun %s ended containerd", words)
		}
	}
}

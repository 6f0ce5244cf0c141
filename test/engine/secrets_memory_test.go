package engine

import (
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/serve"
)

// secretive returns the manifests of a Secret and of a pod with a variable from the Secret, with
// the given restart policy.
func secretive(name, policy string) string {
	return podText(name, policy, "containers:", "- {name: "+name+", image: registry.example/app:1, env: [{name: K, valueFrom: {secretKeyRef: {name: s, key: k}}}]}") +
		"\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {k: hunter2}\n"
}

// keepSecretsInMemory sets --secrets=memory.
func (r *rig) keepSecretsInMemory() {
	r.settings.Secrets = nodeconfig.SecretsInMemory
	// This removes the Secrets if the test fails before podrun removes them.
	r.t.Cleanup(func() {
		_ = unix.Unmount(r.layout().SecretsDir(), unix.MNT_DETACH)
		_ = os.RemoveAll(r.layout().SecretsDir())
	})
}

// loseSecrets removes the Secrets in memory, as a reboot does.
func (r *rig) loseSecrets() {
	r.t.Helper()
	if _, err := os.Stat(r.layout().SecretPods()); err != nil {
		r.t.Fatalf("no Secrets are in memory: %v", err)
	}
	if err := os.RemoveAll(r.layout().SecretPods()); err != nil {
		r.t.Fatal(err)
	}
}

// nothingInMemory fails the test unless podrun has removed all Secrets in memory.
func (r *rig) nothingInMemory() {
	r.t.Helper()
	if _, err := os.Lstat(r.layout().SecretsDir()); !os.IsNotExist(err) {
		r.t.Errorf("%s is left: %v", r.layout().SecretsDir(), err)
	}
}

// TestServeAfterRebootReadsSecretsAgain covers pods whose Secrets were only in memory. serve must
// apply the pod from its directory again, and start its containers with the Secrets. A pod whose
// directory cannot be read must wait until the directory is readable.
func TestServeAfterRebootReadsSecretsAgain(t *testing.T) {
	t.Parallel()
	serveTest(t, func(t *testing.T, s *serving) {
		s.end()
		s.keepSecretsInMemory()
		s.start()
		s.files.write(file("web"), secretive("web", "Always"))
		time.Sleep(time.Minute)
		s.running("web")
		s.end()
		s.rt.Restart()
		s.loseSecrets()
		s.files.reach(served, false)
		s.files.forget()
		s.start()
		time.Sleep(time.Minute)
		if c, ok := s.rt.Container("web"); ok && c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			t.Error("the container was started without its Secret")
		}
		if n := s.warned("its Secrets were lost"); n != 1 {
			t.Errorf("%d warnings of the Secrets, want one", n)
		}
		s.files.reach(served, true)
		time.Sleep(time.Minute)
		c := s.running("web")
		if envs := c.Config.GetEnvs(); len(envs) == 0 || string(envs[0].GetValue()) != "hunter2" {
			t.Errorf("variables %v", envs)
		}
		time.Sleep(time.Hour)
		s.same(c)
	})
}

// TestApplyAfterRebootWithoutSecrets checks that apply restarts the containers of a running pod, but
// does not change a terminated pod, which no longer needs its Secrets.
func TestApplyAfterRebootWithoutSecrets(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]run.Outcome{"Always": run.OutcomeUpdated, "Never": run.OutcomeUnchanged} {
		t.Run(policy, func(t *testing.T) {
			r := newRig(t)
			r.keepSecretsInMemory()
			text := secretive("app", policy)
			if policy == "Never" {
				r.rt.Script("app", critest.Behavior{}) // the container exits immediately
			}
			if _, err := run.ApplyPods(t.Context(), r.engine(), load(t, text), run.ApplyOptions{Timeout: testTimeout, AllowKubelet: true, Wait: map[string]lifecycle.Goal{"Never": lifecycle.GoalCompleted}[policy]}); err != nil {
				t.Fatal(err)
			}
			r.rt.Restart()
			r.loseSecrets()
			if lost := r.shown().Status.Reason == "SecretsLost"; lost != (policy == "Always") {
				t.Errorf("reason %q", r.shown().Status.Reason)
			}
			result := r.mustApply(text, want)
			if running := result.Status.Phase == corev1.PodRunning; running != (policy == "Always") {
				t.Errorf("phase %s", result.Status.Phase)
			}
			r.mustApply(text, run.OutcomeUnchanged)
			if reason := r.shown().Status.Reason; reason != "" {
				t.Errorf("reason %q", reason)
			}
			r.mustDelete()
			r.nothingInMemory()
		})
	}
}

// TestServeRemoteSecretsInMemory checks that podrun does not store a URL's content on disk.
// After a reboot, while the server does not respond, pods must start from their checkpoints.
// Pods with Secrets must start when the server responds.
func TestServeRemoteSecretsInMemory(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.keepSecretsInMemory()
	var down atomic.Bool
	site := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		io.WriteString(w, secretive("web", "Always")+"---\n"+podText("db", "Always", "containers: [{name: db, image: registry.example/db:1}]"))
	}))
	defer site.Close()
	o := serve.Options{Dirs: []string{site.URL + "/pods.yaml"}, Remote: serve.RemoteOptions{Every: 50 * time.Millisecond,
		Trust: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: site.Certificate().Raw})}}
	runs := func(name string) bool {
		c, ok := r.rt.Container(name)
		return ok && c.State == runtimeapi.ContainerState_CONTAINER_RUNNING
	}
	// A podrun process with --secrets=disk has left a copy behind.
	stale := filepath.Join(r.layout().RemoteCopies(), "0123456789abcdef0123456789abcdef")
	if err := errors.Join(os.MkdirAll(filepath.Dir(stale), 0o750), os.WriteFile(stale, []byte("{}"), 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Run("start", func(t *testing.T) {
		r.keep = true
		apiClient(t, r, o)
		eventually(t, "the pods of the URL run", func() bool { return runs("web") && runs("db") })
		if left, err := os.ReadDir(r.layout().RemoteCopies()); err != nil || len(left) > 0 {
			t.Errorf("copies on the disk: %v, %v", left, err)
		}
		if kept, err := os.ReadDir(r.layout().SecretCopies()); err != nil || len(kept) != 1 {
			t.Errorf("copies in memory: %v, %v", kept, err)
		}
	})
	r.rt.Restart()
	r.loseSecrets()
	if err := os.RemoveAll(r.layout().SecretCopies()); err != nil {
		t.Fatal(err)
	}
	down.Store(true)
	t.Run("boot without the server", func(t *testing.T) {
		r.keep = false
		apiClient(t, r, o)
		eventually(t, "db runs, and web is said to have lost its Secrets", func() bool {
			return runs("db") && r.warned("its Secrets were lost") > 0
		})
		if runs("web") {
			t.Error("web was started without its Secret")
		}
		down.Store(false)
		eventually(t, "web runs", func() bool { return runs("web") })
	})
}

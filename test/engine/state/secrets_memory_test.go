package state

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

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/serve"
	"github.com/podrun/podrun/test/engine/rig"
)

// secretive returns the manifests of a Secret and of a pod with a variable from the Secret, with
// the given restart policy.
func secretive(name, policy string) string {
	return rig.PodText(name, policy, "containers:", "- {name: "+name+", image: registry.example/app:1, env: [{name: K, valueFrom: {secretKeyRef: {name: s, key: k}}}]}") +
		"\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {k: hunter2}\n"
}

// TestServeAfterRebootReadsSecretsAgain covers pods whose Secrets were only in memory. serve must
// apply the pod from its directory again, and start its containers with the Secrets. A pod whose
// directory cannot be read must wait until the directory is readable.
func TestServeAfterRebootReadsSecretsAgain(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		s.End()
		s.KeepSecretsInMemory()
		s.Start()
		s.Files.Write(rig.File("web"), secretive("web", "Always"))
		time.Sleep(time.Minute)
		s.Running("web")
		s.End()
		s.Runtime.Restart()
		s.LoseSecrets()
		s.Files.Reach(rig.ManifestDir, false)
		s.Files.Forget()
		s.Start()
		time.Sleep(time.Minute)
		if c, ok := s.Runtime.Container("web"); ok && c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			t.Error("the container was started without its Secret")
		}
		if n := s.Warned("its Secrets were lost"); n != 1 {
			t.Errorf("%d warnings of the Secrets, want one", n)
		}
		s.Files.Reach(rig.ManifestDir, true)
		time.Sleep(time.Minute)
		c := s.Running("web")
		if envs := c.Config.GetEnvs(); len(envs) == 0 || string(envs[0].GetValue()) != "hunter2" {
			t.Errorf("variables %v", envs)
		}
		time.Sleep(time.Hour)
		s.Same(c)
	})
}

// TestApplyAfterRebootWithoutSecrets checks that apply restarts the containers of a running pod, but
// does not change a terminated pod, which no longer needs its Secrets.
func TestApplyAfterRebootWithoutSecrets(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]run.Outcome{"Always": run.OutcomeUpdated, "Never": run.OutcomeUnchanged} {
		t.Run(policy, func(t *testing.T) {
			r := rig.New(t)
			r.KeepSecretsInMemory()
			text := secretive("app", policy)
			if policy == "Never" {
				r.Runtime.Script("app", critest.Behavior{}) // the container exits immediately
			}
			if _, err := run.ApplyPods(t.Context(), r.Engine(), rig.Load(t, text), run.ApplyOptions{Timeout: rig.Timeout, AllowKubelet: true, Wait: map[string]lifecycle.Goal{"Never": lifecycle.GoalCompleted}[policy]}); err != nil {
				t.Fatal(err)
			}
			r.Runtime.Restart()
			r.LoseSecrets()
			if lost := r.OnlyPod().Status.Reason == "SecretsLost"; lost != (policy == "Always") {
				t.Errorf("reason %q", r.OnlyPod().Status.Reason)
			}
			result := r.MustApply(text, want)
			if running := result.Status.Phase == corev1.PodRunning; running != (policy == "Always") {
				t.Errorf("phase %s", result.Status.Phase)
			}
			r.MustApply(text, run.OutcomeUnchanged)
			if reason := r.OnlyPod().Status.Reason; reason != "" {
				t.Errorf("reason %q", reason)
			}
			r.MustDelete()
			r.NothingInMemory()
		})
	}
}

// TestServeRemoteSecretsInMemory checks that podrun does not store a URL's content on disk.
// After a reboot, while the server does not respond, pods must start from their checkpoints.
// Pods with Secrets must start when the server responds.
func TestServeRemoteSecretsInMemory(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.KeepSecretsInMemory()
	var down atomic.Bool
	site := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		io.WriteString(w, secretive("web", "Always")+"---\n"+rig.PodText("db", "Always", "containers: [{name: db, image: registry.example/db:1}]"))
	}))
	defer site.Close()
	o := serve.Options{Dirs: []string{site.URL + "/pods.yaml"}, Remote: serve.RemoteOptions{Every: 50 * time.Millisecond,
		Trust: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: site.Certificate().Raw})}}
	runs := func(name string) bool {
		c, ok := r.Runtime.Container(name)
		return ok && c.State == runtimeapi.ContainerState_CONTAINER_RUNNING
	}
	// A podrun process with --secrets=disk has left a copy behind.
	stale := filepath.Join(r.Layout().Serve().RemoteCopies(), "0123456789abcdef0123456789abcdef")
	if err := errors.Join(os.MkdirAll(filepath.Dir(stale), 0o750), os.WriteFile(stale, []byte("{}"), 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Run("start", func(t *testing.T) {
		r.KeepPods = true
		rig.API(t, r, o)
		rig.Eventually(t, "the pods of the URL run", func() bool { return runs("web") && runs("db") })
		if left, err := os.ReadDir(r.Layout().Serve().RemoteCopies()); err != nil || len(left) > 0 {
			t.Errorf("copies on the disk: %v, %v", left, err)
		}
		if kept, err := os.ReadDir(r.Layout().Secrets().RemoteCopies()); err != nil || len(kept) != 1 {
			t.Errorf("copies in memory: %v, %v", kept, err)
		}
	})
	r.Runtime.Restart()
	r.LoseSecrets()
	if err := os.RemoveAll(r.Layout().Secrets().RemoteCopies()); err != nil {
		t.Fatal(err)
	}
	down.Store(true)
	t.Run("boot without the server", func(t *testing.T) {
		r.KeepPods = false
		rig.API(t, r, o)
		rig.Eventually(t, "db runs, and web is said to have lost its Secrets", func() bool {
			return runs("db") && r.Warned("its Secrets were lost") > 0
		})
		if runs("web") {
			t.Error("web was started without its Secret")
		}
		down.Store(false)
		rig.Eventually(t, "web runs", func() bool { return runs("web") })
	})
}

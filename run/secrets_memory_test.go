package run

import (
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/nodeconfig"
	"github.com/podrun/podrun/run/lifecycle"
)

// secretive is a pod of that restart policy that takes a variable from a Secret, and
// the Secret.
func secretive(name, policy string) string {
	return podText(name, policy, "containers:", "- {name: "+name+", image: registry.example/app:1, env: [{name: K, valueFrom: {secretKeyRef: {name: s, key: k}}}]}") +
		"\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {k: hunter2}\n"
}

// loseSecrets is what a reboot does to the memory.
func (r *rig) loseSecrets() {
	r.t.Helper()
	if _, err := os.Stat(r.layout().SecretPods()); err != nil {
		r.t.Fatalf("there is nothing to lose: %v", err)
	}
	if err := os.RemoveAll(r.layout().SecretPods()); err != nil {
		r.t.Fatal(err)
	}
}

// nothingInMemory fails unless all of the Secrets in memory were removed.
func (r *rig) nothingInMemory() {
	r.t.Helper()
	if _, err := os.Lstat(r.layout().SecretsDir()); !os.IsNotExist(err) {
		r.t.Errorf("%s is left: %v", r.layout().SecretsDir(), err)
	}
}

// TestServeAfterRebootReadsSecretsAgain: serve applies the pods of its directories again,
// whose Secrets were in memory only, and starts their containers with them. The pod of a
// directory that cannot be read waits for it.
func TestServeAfterRebootReadsSecretsAgain(t *testing.T) {
	serveTest(t, func(t *testing.T, s *serving) {
		s.end()
		s.settings.Secrets = nodeconfig.SecretsInMemory
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
		if n := s.warned("its Secrets were kept in memory only"); n != 1 {
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

// TestApplyAfterRebootWithoutSecrets: of a pod that runs, apply starts the containers
// again; one that has ended is left ended, as its Secrets are not needed any more.
func TestApplyAfterRebootWithoutSecrets(t *testing.T) {
	for policy, want := range map[string]Outcome{"Always": OutcomeUpdated, "Never": OutcomeUnchanged} {
		t.Run(policy, func(t *testing.T) {
			r := newRig(t)
			r.settings.Secrets = nodeconfig.SecretsInMemory
			text := secretive("app", policy)
			if policy == "Never" {
				r.rt.Script("app", critest.Behavior{}) // ends at once
			}
			if _, err := r.engine().Apply(t.Context(), load(t, text), ApplyOptions{Timeout: testTimeout, AllowKubelet: true, Wait: map[string]lifecycle.Goal{"Never": lifecycle.GoalCompleted}[policy]}); err != nil {
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
			r.mustApply(text, OutcomeUnchanged)
			if reason := r.shown().Status.Reason; reason != "" {
				t.Errorf("reason %q", reason)
			}
			r.mustDelete()
			r.nothingInMemory()
		})
	}
}

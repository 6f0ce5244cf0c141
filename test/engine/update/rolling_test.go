package update

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/test/engine/rig"
)

// replicatedText is a workload whose pods are ready 5 s after their start.
func replicatedText(kind, spec string, n int) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: %s
metadata: {name: web, annotations: {podrun.dev/replicas: honour}}
spec:
  replicas: %d
  selector: {matchLabels: {app: web}}
%s
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: app, image: registry.example/app:1, readinessProbe: {exec: {command: [ready]}, initialDelaySeconds: 5, periodSeconds: 1}}]
`, kind, n, spec)
}

// setEnv is `podrun set env`: it adds a variable to the container of each pod.
func setEnv(id identity.Pod, c *manifest.Checkpoint) (*manifest.Objects, error) {
	changed := *c
	changed.Pod = c.Pod.DeepCopy()
	changed.Pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "VERSION", Value: "2"}}
	return changed.Objects(), nil
}

// rolloutOf returns, for each pod that a change replaced, the number of pods that were not ready when its
// container was stopped, in the order of the stops. A pod is ready from its second successful probe on.
func rolloutOf(r *rig.Host, id map[string]string) (order []string, unready []int) {
	down := map[string]bool{}
	for _, c := range r.Runtime.Calls() {
		switch req := c.Request.(type) {
		case *runtimeapi.StopContainerRequest:
			if name := id[req.GetContainerId()]; name != "" && !down[name] {
				down[name] = true
				order, unready = append(order, name), append(unready, len(down))
			}
		case *runtimeapi.ExecSyncRequest:
			if name := podOf(r, req.GetContainerId()); id[req.GetContainerId()] == "" && c.Err == nil {
				delete(down, name)
			}
		}
	}
	return order, unready
}

// podOf returns the name of the pod of a container.
func podOf(r *rig.Host, containerID string) string {
	for _, c := range r.Runtime.Containers() {
		if c.ID == containerID {
			return c.Config.GetLabels()["io.kubernetes.pod.name"]
		}
	}
	return ""
}

// TestRollingChange checks that a change of several replicas replaces them as the workload's strategy
// says: at most maxUnavailable at the same time, the pods of a StatefulSet from the highest index down,
// and the next ones when the new pods are ready.
func TestRollingChange(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, kind, spec string
		n                int
		order            string // "" for any
		unready          []int  // number of unavailable pods when each pod is stopped
	}{
		{"maxUnavailable 2", "Deployment", "  strategy: {rollingUpdate: {maxUnavailable: 2}}", 3, "", []int{1, 2, 1}},
		{"StatefulSet", "StatefulSet", "  serviceName: web", 3, "web-2 web-1 web", []int{1, 1, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t)
				r.Settings.CgroupsPerQOS = false
				r.Runtime.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{} })
				r.Apply(replicatedText(tt.kind, tt.spec, tt.n))
				names := map[string]string{}
				for _, c := range r.Runtime.Containers() {
					names[c.ID] = c.Config.GetLabels()["io.kubernetes.pod.name"]
				}
				if len(names) != tt.n {
					t.Fatalf("%d pods run", len(names))
				}
				r.Runtime.ForgetCalls()
				results, err := run.ChangePods(t.Context(), r.Engine(), r.Known(), setEnv, run.ApplyOptions{AllowKubelet: true})
				if err := rig.ErrorOf(results, err); err != nil {
					t.Fatal(err)
				}
				order, unready := rolloutOf(r, names)
				if tt.order != "" && strings.Join(order, " ") != tt.order || !slices.Equal(unready, tt.unready) {
					t.Errorf("the pods were stopped in the order %v, with %v unavailable pods, want %q, %v", order, unready, tt.order, tt.unready)
				}
				for _, c := range r.Runtime.Containers() {
					if c.State == runtimeapi.ContainerState_CONTAINER_RUNNING && !slices.ContainsFunc(c.Config.GetEnvs(), func(kv *runtimeapi.KeyValue) bool { return kv.GetKey() == "VERSION" }) {
						t.Errorf("%s runs with the old definition", c.Config.GetLabels()["io.kubernetes.pod.name"])
					}
				}
				r.MustDelete()
			})
		})
	}
}

// TestRollingChangeThatFails checks that podrun keeps the other replicas if a replica does not become
// ready with the new definition.
func TestRollingChangeThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Settings.CgroupsPerQOS = false
		r.Runtime.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{} })
		r.Apply(replicatedText("Deployment", "", 3))
		r.Runtime.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{ExitCode: 1} })
		results, err := run.ChangePods(t.Context(), r.Engine(), r.Known(), setEnv, run.ApplyOptions{AllowKubelet: true, Timeout: time.Minute})
		if err != nil || len(results) != 3 {
			t.Fatalf("%v, %v", results, err)
		}
		failed := 0
		for _, result := range results {
			if result.Err == nil {
				t.Errorf("%s: %s", result.ID, result.Outcome)
			}
			if result.Err != nil && strings.Contains(result.Err.Error(), "was not changed, because pod default/web has failed to become ready") {
				failed++
			}
		}
		if failed != 2 {
			t.Errorf("%v", errors.Join(results[0].Err, results[1].Err, results[2].Err))
		}
		old := 0
		for _, c := range r.Runtime.Containers() {
			if c.State == runtimeapi.ContainerState_CONTAINER_RUNNING && len(c.Config.GetEnvs()) == 0 {
				old++
			}
		}
		if old < 2 {
			t.Errorf("%d pods run with the old definition", old)
		}
		r.MustDelete()
	})
}

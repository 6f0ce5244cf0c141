package state

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/test/engine/rig"
)

// everyDefault is a pod with all fields for which Kubernetes has defaults.
const everyDefault = `apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  volumes:
  - {name: files, configMap: {name: web}}
  - {name: host, hostPath: {path: /}}
  - {name: data, persistentVolumeClaim: {claimName: data}}
  initContainers:
  - {name: side, image: registry.example/setup:1, restartPolicy: Always}
  containers:
  - name: app
    image: registry.example/app:1
    resources: {limits: {cpu: 100m}}
    env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
    ports: [{containerPort: 80}]
    readinessProbe: {httpGet: {port: 80}, initialDelaySeconds: 3600}
    volumeMounts: [{name: files, mountPath: /files}]
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: web}, data: {a: b}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], volumeName: pv, resources: {requests: {storage: 1Gi}}}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv}, spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, hostPath: {path: /}}}
`

// newDefaults are fields of everyDefault that are set by defaulting. A version of podrun without
// these defaults wrote checkpoints without the fields.
var newDefaults = []string{
	"terminationGracePeriodSeconds", "enableServiceLinks", "schedulerName", "dnsPolicy", "serviceAccount", "terminationMessagePolicy",
	"terminationMessagePath", "protocol", "defaultMode", "securityContext", "timeoutSeconds", "failureThreshold", "scheme", "requests",
	"imagePullPolicy", "volumeMode", "type", "persistentVolumeReclaimPolicy", "apiVersion of fieldRef",
}

// withoutDefault rewrites a checkpoint in the format of a version of podrun without the given
// default.
func withoutDefault(t *testing.T, layout identity.Layout, uid, field string) {
	t.Helper()
	data, err := os.ReadFile(layout.Pod(uid).Checkpoint())
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	removed := 0
	for i, line := range lines {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Fatal(err)
		}
		removed += dropField(object["spec"], field)
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		lines[i] = string(text)
	}
	if removed == 0 {
		t.Fatalf("the checkpoint has no %s", field)
	}
	if err := os.WriteFile(layout.Pod(uid).Checkpoint(), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// dropField removes all occurrences of a field, and returns their number. "X of Y" means the
// field X, but only in objects of the kind Y.
func dropField(value any, field string) (removed int) {
	name, parent, _ := strings.Cut(field, " of ")
	switch v := value.(type) {
	case map[string]any:
		if _, has := v[name]; has && parent == "" && name != "requests" {
			delete(v, name)
			removed++
		}
		for key, inner := range v {
			if below, ok := inner.(map[string]any); ok && (key == parent || name == "requests" && key == "resources" && below["limits"] != nil) {
				if _, has := below[name]; has {
					delete(below, name)
					removed++
				}
			}
			removed += dropField(inner, field)
		}
	case []any:
		for _, inner := range v {
			removed += dropField(inner, field)
		}
	}
	return removed
}

// TestUpgradeNewDefault checks that a new API default does not change a pod that an older version
// of podrun created, regardless of the command that acts on the pod.
func TestUpgradeNewDefault(t *testing.T) {
	t.Parallel()
	for _, field := range newDefaults {
		t.Run(field, func(t *testing.T) {
			r := rig.New(t)
			defer r.MustDelete()
			first := r.MustApply(everyDefault, run.OutcomeCreated)
			withoutDefault(t, r.Layout(), first.ID.UID, field)
			r.Runtime.ForgetCalls()
			again := r.MustApply(everyDefault, run.OutcomeUnchanged)
			if again.ID != first.ID || len(again.What) > 0 {
				t.Errorf("pod %v (%q), want %v", again.ID, again.What, first.ID)
			}
			for name, do := range map[string]func(*run.Node, []run.Known) ([]run.Result, error){
				"start": func(e *run.Node, pods []run.Known) ([]run.Result, error) {
					return run.StartPods(t.Context(), e, pods, run.ApplyOptions{Timeout: rig.Timeout, AllowKubelet: true})
				},
				"wait": func(e *run.Node, pods []run.Known) ([]run.Result, error) {
					return rig.ResultsOf(run.WaitAll(t.Context(), e, pods, run.WaitOptions{For: lifecycle.GoalStarted})), nil
				},
			} {
				pods, err := lookup.Find(t.Context(), r.Engine(), lookup.Selector{})
				if err != nil {
					t.Fatal(err)
				}
				results, err := do(r.Engine(), pods)
				if err != nil || len(results) != 1 || results[0].Err != nil || results[0].ID != first.ID {
					t.Errorf("%s: %+v, %v", name, results, err)
				}
			}
			rig.WantChanges(t, r.Runtime)
		})
	}
}

// TestUpgradeHostname checks that the pods and their UIDs do not change if the host gets another
// name (DHCP).
func TestUpgradeHostname(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	defer r.MustDelete()
	first := r.MustApply(everyDefault, run.OutcomeCreated)
	r.Settings.HostnameOverride = "node-b"
	r.Runtime.ForgetCalls()
	if again := r.MustApply(everyDefault, run.OutcomeUnchanged); again.ID != first.ID {
		t.Errorf("pod %v, want %v", again.ID, first.ID)
	}
	pods, err := lookup.Find(t.Context(), r.Engine(), lookup.Selector{})
	if err != nil || len(pods) != 1 {
		t.Fatalf("%v, %v", pods, err)
	}
	options := run.ApplyOptions{Timeout: rig.Timeout, AllowKubelet: true}
	results, err := run.StartPods(t.Context(), r.Engine(), pods, options)
	if err != nil || results[0].Err != nil || results[0].Outcome != run.OutcomeUnchanged || results[0].ID != first.ID {
		t.Errorf("start: %+v, %v", results, err)
	}
	if result := run.Wait(t.Context(), r.Engine(), pods[0], run.WaitOptions{For: lifecycle.GoalStarted}); result.Err != nil || result.ID != first.ID {
		t.Errorf("wait: %+v", result)
	}
	rig.WantChanges(t, r.Runtime)
	updated := r.MustApply(strings.Replace(everyDefault, "app:1", "app:2", 1), run.OutcomeUpdated)
	if updated.ID != first.ID || !slices.Equal(updated.What, []string{"spec.containers[0].image"}) {
		t.Errorf("update: pod %v, %q", updated.ID, updated.What)
	}
	for name, do := range map[string]func() ([]run.Result, error){
		"restart": func() ([]run.Result, error) { return rig.RestartPods(t.Context(), r.Engine(), pods, options) },
		"apply --force": func() ([]run.Result, error) {
			forced := options
			forced.Force = true
			return run.ApplyPods(t.Context(), r.Engine(), rig.Load(t, strings.Replace(everyDefault, "app:1", "app:2", 1)), forced)
		},
	} {
		results, err := do()
		if err != nil || results[0].Err != nil || results[0].Outcome != run.OutcomeRestarted || results[0].ID != first.ID {
			t.Errorf("%s: %v, %v; want pod %v", name, results[0].ID, err, first.ID)
		}
	}
}

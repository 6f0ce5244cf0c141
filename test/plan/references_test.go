package plan

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/manifest/input"
	"github.com/podrun/podrun/run/prepare"
)

const refContainer = `
spec:
  terminationGracePeriodSeconds: 2
  automountServiceAccountToken: false
  containers:
  - name: app
    image: registry.example/busybox:1.36
    command: [sleep, "3600"]
`

// references are the pods that a standalone kubelet refuses because it has no API server
// (kubelet-golden 31 to 34 and 42, and 22). Each has the requests and files of a kubelet with
// an API server, which were derived manually from the kubelet's source.
var references = map[string]struct {
	manifest string
	env      []string // environment variables as sent to the runtime
	// container path, path below the pod's directory, and ro if it is read-only
	mounts   []string
	files    []string // volume: mode path bytes
	problems []string // problems for which podrun refuses the pod
}{
	"22-downward": {
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: downward, labels: {b: two, a: one}, annotations: {note: "quoted \"text\""}},
spec: {securityContext: {fsGroup: 777, runAsUser: 1000}, containers: [{name: app, image: registry.example/busybox:1.36, resources: {limits: {cpu: 500m, memory: 64Mi}},
  volumeMounts: [{name: info, mountPath: /etc/podinfo}, {name: info, mountPath: /labels, subPath: labels}]}],
volumes: [{name: info, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}, {path: annotations, fieldRef: {fieldPath: metadata.annotations}},
  {path: deep/name, fieldRef: {fieldPath: metadata.name}, mode: 0400}, {path: cpu, resourceFieldRef: {containerName: app, resource: limits.cpu, divisor: 1m}}]}}]}}`,
		mounts: []string{"/etc/podinfo volumes/kubernetes.io~downward-api/info ro", "/labels volume-subpaths/info/app/1 ro"},
		files:  []string{"info: 0644 annotations 22", "info: 0644 cpu 3", "info: 0400 deep/name 8", "info: 0644 labels 15"},
	},
	"31-config-refs": {
		manifest: "{apiVersion: v1, kind: ConfigMap, metadata: {name: cm}, data: {x: why, z.a: w}}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: config-refs}" + refContainer +
			"    env: [{name: X, valueFrom: {configMapKeyRef: {name: cm, key: x}}}]\n    envFrom: [{configMapRef: {name: cm}}]\n",
		env: []string{"x=why", "z.a=w", "X=why"},
	},
	"31-config-refs without its ConfigMap": {
		manifest: "apiVersion: v1\nkind: Pod\nmetadata: {name: config-refs}" + refContainer +
			"    env: [{name: X, valueFrom: {configMapKeyRef: {name: cm, key: x}}}]\n    envFrom: [{configMapRef: {name: cm}}]\n",
		problems: []string{`spec.containers[0].envFrom[0]: configmap "cm" not found`, `spec.containers[0].env[0].valueFrom: configmap "cm" not found`},
	},
	"32-secret-volume": {
		manifest: "{apiVersion: v1, kind: Secret, metadata: {name: nope}, stringData: {key: value}}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: secret-volume}" + refContainer +
			"    volumeMounts: [{name: s, mountPath: /s}]\n  volumes:\n  - {name: s, secret: {secretName: nope}}\n",
		mounts: []string{"/s volumes/kubernetes.io~secret/s ro"},
		files:  []string{"s: 0644 key 5"},
	},
	"33-serviceaccount": {
		manifest: "apiVersion: v1\nkind: Pod\nmetadata: {name: serviceaccount}" + refContainer + "  serviceAccountName: builder\n",
	},
	"34-configmap-optional": {
		manifest: "apiVersion: v1\nkind: Pod\nmetadata: {name: configmap-optional}" + refContainer +
			"    env: [{name: X, valueFrom: {configMapKeyRef: {name: cm, key: x, optional: true}}}]\n  imagePullSecrets: [{name: pull}]\n",
	},
	"42-projected": {
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: projected, labels: {a: one}},
spec: {securityContext: {fsGroup: 777, runAsUser: 1000}, containers: [{name: app, image: registry.example/busybox:1.36, resources: {limits: {cpu: 500m, memory: 64Mi}},
  volumeMounts: [{name: all, mountPath: /all, readOnly: true}]}],
volumes: [{name: all, projected: {defaultMode: 0440, sources: [{downwardAPI: {items: [{path: uid, fieldRef: {fieldPath: metadata.uid}}, {path: memory, resourceFieldRef: {containerName: app, resource: limits.memory}}]}}]}}]}}`,
		mounts: []string{"/all volumes/kubernetes.io~projected/all ro"},
		files:  []string{"all: 0440 memory 8", "all: 0440 uid 32"},
	},
}

func TestReferences(t *testing.T) {
	for name, test := range references {
		t.Run(name, func(t *testing.T) {
			objects, problems := manifest.Load([]input.Source{{Name: "pod.yaml", Data: []byte(test.manifest)}}, manifest.Options{})
			if errs := problems.Errors(); len(errs) > 0 {
				t.Fatal(errs)
			}
			targets, found := prepare.All(prepare.Input{Objects: objects, HostState: prepare.HostState{Facts: facts(t, &txtar.Archive{})}, Settings: nodeconfig.Default(), Invocation: "(invocation)"})
			var refused []string
			for _, p := range found.Errors() {
				refused = append(refused, p.Field+": "+p.Message)
				if p.Kind != problem.Manifest {
					t.Errorf("%s is of kind %q", p.Field, p.Kind)
				}
			}
			if diff := cmp.Diff(test.problems, refused); diff != "" {
				t.Fatal(diff)
			}
			if len(refused) > 0 {
				return
			}
			v := viewOf(t, targets[0])
			if diff := cmp.Diff(test.env, v.env()); diff != "" {
				t.Errorf("env: %s", diff)
			}
			if diff := cmp.Diff(test.mounts, v.mounts(targets[0].Plan.Volumes.Dir)); diff != "" {
				t.Errorf("mounts: %s", diff)
			}
			if diff := cmp.Diff(test.files, v.files()); diff != "" {
				t.Errorf("files: %s", diff)
			}
		})
	}
}

// view is the part of a printed plan that the test compares.
type view struct {
	Volumes struct {
		Volumes []struct {
			Name string
			Make struct {
				Files []struct {
					Path, Mode string
					Bytes      int
				}
			}
		}
	}
	Containers []struct {
		Config struct {
			Envs   []struct{ Key, Value string }
			Mounts []struct {
				HostPath      string `json:"host_path"`
				ContainerPath string `json:"container_path"`
				Readonly      bool
			}
		}
	}
}

func viewOf(t *testing.T, target prepare.Target) view {
	t.Helper()
	printed, err := target.View()
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(printed)
	if err != nil {
		t.Fatal(err)
	}
	var v view
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func (v view) env() []string {
	var out []string
	for _, e := range v.Containers[0].Config.Envs {
		out = append(out, e.Key+"="+e.Value)
	}
	return out
}

// mounts returns the mounts of the container, except those that every container has.
func (v view) mounts(dir string) []string {
	var out []string
	for _, m := range v.Containers[0].Config.Mounts {
		if m.ContainerPath == "/etc/hosts" || m.ContainerPath == "/dev/termination-log" {
			continue
		}
		line := m.ContainerPath + " " + strings.TrimPrefix(m.HostPath, dir+"/")
		if m.Readonly {
			line += " ro"
		}
		out = append(out, line)
	}
	return out
}

func (v view) files() []string {
	var out []string
	for _, volume := range v.Volumes.Volumes {
		for _, f := range volume.Make.Files {
			out = append(out, fmt.Sprintf("%s: %s %s %d", volume.Name, f.Mode, f.Path, f.Bytes))
		}
	}
	return out
}

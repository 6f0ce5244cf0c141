package parity

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// byHand contains pods that a standalone kubelet cannot run, with the lines that a kubelet with an
// API server would produce, and the source of each line. The tests of the recorded pods cover all
// other lines.
var byHand = map[string]struct {
	objects, pod string
	want         []struct{ track, line, source string }
	never        []struct{ track, line, source string }
}{
	"runtimeClassName": {
		objects: "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: small}, handler: runc}",
		pod: `{apiVersion: v1, kind: Pod, metadata: {name: classed}, spec: {runtimeClassName: small, containers: [
  {name: app, image: registry.example/app:1, resources: {requests: {cpu: 100m}}}]}}`,
		want: []struct{ track, line, source string }{
			{"sandbox", `runtime_handler = "runc"`, "RuntimeClass.handler (API); RunPodSandboxRequest.runtime_handler (CRI)"},
			{"sandbox", `linux.overhead = "{}"`, "PodSpec.overhead is set by the RuntimeClass admission plugin, from a class that has one"},
			{"images", `{"image":{"image":"registry.example/app:1"}}`, "ImageSpec.runtime_handler needs the gate RuntimeClassInImageCriApi (KEP-4216), which is alpha"},
			{"sandbox", `linux.resources.cpu_shares = "102"`, "LinuxPodSandboxConfig.resources, as in the recording 03-burstable"},
		},
	},
	"overhead": {
		objects: "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: heavy}, handler: runc, overhead: {podFixed: {cpu: 50m, memory: 8Mi}}, scheduling: {nodeSelector: {kubernetes.io/os: linux}}}",
		pod: `{apiVersion: v1, kind: Pod, metadata: {name: heavy}, spec: {runtimeClassName: heavy, containers: [
  {name: app, image: registry.example/app:1, resources: {requests: {cpu: 100m, memory: 32Mi}, limits: {cpu: 200m, memory: 64Mi}}}]}}`,
		want: []struct{ track, line, source string }{
			{"sandbox", `linux.overhead.cpu_shares = "51"`, "KEP-688; the kubelet's convertOverheadToLinuxResources: request and limit in one"},
			{"sandbox", `linux.overhead.cpu_quota = "5000"`, "likewise"},
			{"sandbox", `linux.overhead.cpu_period = "100000"`, "likewise"},
			{"sandbox", `linux.overhead.memory_limit_in_bytes = "8388608"`, "likewise"},
			{"sandbox", `linux.resources.cpu_shares = "102"`, "LinuxPodSandboxConfig.resources is without the overhead (CRI; KEP-2371)"},
			{"sandbox", `linux.resources.memory_limit_in_bytes = "67108864"`, "likewise"},
			{"container app/0", `linux.resources.memory_limit_in_bytes = "67108864"`, "a container's limit is its own"},
			{"cgroup", `cpu.shares "153"`, "PodSpec.overhead (API): the pod's group has it on top of what its containers request"},
			{"cgroup", `cpu.cfs_quota_us "25000"`, "likewise, of the limits"},
			{"cgroup", `memory.limit_in_bytes "75497472"`, "likewise"},
		},
	},
	"optional": {
		pod: `{apiVersion: v1, kind: Pod, metadata: {name: without}, spec: {containers: [
  {name: app, image: registry.example/app:1, env: [{name: A, value: a}, {name: NONE, valueFrom: {configMapKeyRef: {name: absent, key: k, optional: true}}}], envFrom: [{secretRef: {name: absent, optional: true}}],
   volumeMounts: [{name: v, mountPath: /v}]}],
 volumes: [{name: v, configMap: {name: absent, optional: true}}]}}`,
		want: []struct{ track, line, source string }{
			{"container app/0", `envs[0] = "A=a"`, "ConfigMapKeySelector.optional (API): no such variable"},
			{"container app/0", `mounts[0].host_path = "<ROOT>/pods/<UID>/volumes/kubernetes.io~configmap/v"`, "ConfigMapVolumeSource.optional (API): an empty volume"},
			{"files", `volumes/kubernetes.io~configmap/v/..data link "..<TIME>"`, "the writer of all volumes of files, without any"},
		},
		never: []struct{ track, line, source string }{
			{"container app/0", `envs[1] = "NONE="`, "ConfigMapKeySelector.optional (API)"},
		},
	},
	"configMap": {
		objects: "{apiVersion: v1, kind: ConfigMap, metadata: {name: cm}, data: {plain: text}, binaryData: {bytes: aGk=}}",
		pod: `{apiVersion: v1, kind: Pod, metadata: {name: configured}, spec: {containers: [
  {name: app, image: registry.example/app:1, env: [{name: ONE, valueFrom: {configMapKeyRef: {name: cm, key: plain}}}], envFrom: [{prefix: P_, configMapRef: {name: cm}}],
   volumeMounts: [{name: files, mountPath: /files}]}],
 volumes: [{name: files, configMap: {name: cm, items: [{key: plain, path: sub/name, mode: 0400}, {key: bytes, path: bytes}]}}]}}`,
		want: []struct{ track, line, source string }{
			{"container app/0", `envs[0] = "ONE=text"`, "EnvVarSource.configMapKeyRef (API)"},
			{"container app/0", `envs[1] = "P_plain=text"`, "EnvFromSource.prefix (API); binaryData makes no variables"},
			{"container app/0", `mounts[0].container_path = "/files"`, "VolumeMount.mountPath (API)"},
			{"container app/0", `mounts[0].host_path = "<ROOT>/pods/<UID>/volumes/kubernetes.io~configmap/files"`, "the kubelet's directory of a volume: its plugin's name, with ~ for / (pkg/volume/configmap)"},
			{"container app/0", `mounts[0].readonly = "true"`, "volumes of ConfigMaps are read-only since kubernetes issue 62099"},
			{"files", `volumes/kubernetes.io~configmap/files/..<TIME>/sub/name mode "-r--------"`, "KeyToPath.mode (API)"},
			{"files", `volumes/kubernetes.io~configmap/files/..<TIME>/sub/name text "text"`, "KeyToPath.path (API)"},
			{"files", `volumes/kubernetes.io~configmap/files/..<TIME>/bytes mode "-rw-r--r--"`, "ConfigMapVolumeSource.defaultMode is 0644 (API)"},
			{"files", `volumes/kubernetes.io~configmap/files/..<TIME>/bytes text "hi"`, "ConfigMap.binaryData (API)"},
			{"files", `volumes/kubernetes.io~configmap/files/..data link "..<TIME>"`, "the writer of all volumes of files; as in the recording 22-downward"},
			{"files", `volumes/kubernetes.io~configmap/files/sub link "..data/sub"`, "likewise: a link for the first part of each path"},
			{"files", `volumes/kubernetes.io~configmap mode "drwxr-xr-x"`, "as in the recording 22-downward"},
		},
	},
	"secret": {
		objects: "{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {key: value}}",
		pod: `{apiVersion: v1, kind: Pod, metadata: {name: secretive}, spec: {securityContext: {fsGroup: 777}, containers: [
  {name: app, image: registry.example/app:1, env: [{name: ONE, valueFrom: {secretKeyRef: {name: s, key: key}}}, {name: NONE, valueFrom: {secretKeyRef: {name: s, key: absent, optional: true}}}],
   volumeMounts: [{name: v, mountPath: /v}]}],
 volumes: [{name: v, secret: {secretName: s, defaultMode: 0400}}]}}`,
		want: []struct{ track, line, source string }{
			{"container app/0", `envs[0] = "ONE=value"`, "EnvVarSource.secretKeyRef (API); an optional key that is not there makes no variable"},
			{"container app/0", `mounts[0].host_path = "<ROOT>/pods/<UID>/volumes/kubernetes.io~secret/v"`, "the kubelet's directory of a volume (pkg/volume/secret)"},
			{"container app/0", `mounts[0].readonly = "true"`, "volumes of Secrets are read-only since kubernetes issue 62099"},
			{"files", `volumes/kubernetes.io~secret/v/..<TIME>/key mode "-r--r-----"`, "PodSecurityContext.fsGroup: the group may read, as in the recording 22-downward"},
			{"files", `volumes/kubernetes.io~secret/v/..<TIME>/key owner "0:777"`, "PodSecurityContext.fsGroup (API)"},
			{"files", `volumes/kubernetes.io~secret/v mode "dgtrwxrwxrwx"`, "a tmpfs of the group, as in the recording 22-downward"},
			{"container app/0", `linux.security_context.supplemental_groups[0] = "777"`, "PodSecurityContext.fsGroup (API), as in the recording 19-emptydir"},
		},
		never: []struct{ track, line, source string }{
			{"container app/0", `envs[1] = "NONE="`, "SecretKeySelector.optional (API)"},
		},
	},
	"projected": {
		objects: "{apiVersion: v1, kind: ConfigMap, metadata: {name: cm}, data: {a: from the map}}\n---\n{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {b: from the secret}}",
		pod: `{apiVersion: v1, kind: Pod, metadata: {name: all-in-one, labels: {l: one}}, spec: {containers: [
  {name: app, image: registry.example/app:1, volumeMounts: [{name: all, mountPath: /all}]}],
 volumes: [{name: all, projected: {defaultMode: 0440, sources: [{configMap: {name: cm}}, {secret: {name: s, items: [{key: b, path: deep/b, mode: 0600}]}}, {downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}]}}]}}`,
		want: []struct{ track, line, source string }{
			{"container app/0", `mounts[0].host_path = "<ROOT>/pods/<UID>/volumes/kubernetes.io~projected/all"`, "the kubelet's directory of a volume (pkg/volume/projected)"},
			{"container app/0", `mounts[0].readonly = "true"`, "projected volumes are read-only since kubernetes issue 62099"},
			{"files", `volumes/kubernetes.io~projected/all/..<TIME>/a mode "-r--r-----"`, "ProjectedVolumeSource.defaultMode (API)"},
			{"files", `volumes/kubernetes.io~projected/all/..<TIME>/a text "from the map"`, "ConfigMapProjection (API)"},
			{"files", `volumes/kubernetes.io~projected/all/..<TIME>/deep/b mode "-rw-------"`, "KeyToPath.mode (API)"},
			{"files", `volumes/kubernetes.io~projected/all/..<TIME>/labels text "l=\"one\""`, "DownwardAPIProjection (API), as in the recording 22-downward"},
			{"files", `volumes/kubernetes.io~projected/all/deep link "..data/deep"`, "the writer of all volumes of files"},
		},
	},
}

// TestByHand compares the lines of byHand with those that podrun produces.
func TestByHand(t *testing.T) {
	needsHost(t)
	for name, test := range byHand {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pod.yaml")
			if err := os.WriteFile(file, []byte(test.pod), 0o600); err != nil {
				t.Fatal(err)
			}
			sent, words, refused := sentOf(t, readPod(t, file), []byte(test.objects+"\n---\n"+test.pod), world{})
			if words == nil {
				t.Fatal(refused)
			}
			for _, w := range test.want {
				if !slices.Contains(sent[w.track], words.Replace(w.line)) {
					t.Errorf("%s: no %s (%s); it has:\n%q", w.track, words.Replace(w.line), w.source, sent[w.track])
				}
			}
			for _, w := range test.never {
				if slices.Contains(sent[w.track], w.line) {
					t.Errorf("%s: %s (%s)", w.track, w.line, w.source)
				}
			}
		})
	}
}

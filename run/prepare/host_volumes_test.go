package prepare

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
)

const (
	dataClaim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {storageClassName: \"\", accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}"
	// confined makes a pod that the standard restricted allows.
	confined = "securityContext: {runAsNonRoot: true, runAsUser: 1, fsGroup: 0, seccompProfile: {type: RuntimeDefault}}\n" +
		"containers: [{name: web, image: registry.example/web:1, volumeMounts: [{name: data, mountPath: /data}], securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]\n"
)

// hostVolume returns a PersistentVolume with the given source, and its claim.
func hostVolume(source string, more ...string) string {
	return "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: pv, annotations: {podrun.dev/volume-origin: settings}}\n" +
		"spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, " + strings.Join(append(more, source), ", ") + "}\n---\n" + dataClaim
}

// withClaim returns a pod that uses the claim data.
func withClaim(name, image string) string {
	return podText(name, "Always", "containers: [{name: "+name+", image: "+image+", volumeMounts: [{name: data, mountPath: /data}]}]",
		"volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]")
}

// TestVolumesOfManifest covers volumes of the host that a manifest defines together with the pod. Under a
// pod security level, they must be refused in every form.
func TestVolumesOfManifest(t *testing.T) {
	t.Parallel()
	const affinity = "nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: Exists}]}]}}"
	pod := podText("web", "Always", confined+"volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]")
	asJSON := func(text string) string {
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	asList := func(text string) string {
		var items []json.RawMessage
		for one := range strings.SplitSeq(text, "\n---\n") {
			items = append(items, json.RawMessage(asJSON(one)))
		}
		data, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	set := strings.TrimSuffix(hostVolume("hostPath: {path: /etc}"), dataClaim) + "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: web}\nspec:\n  serviceName: web\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n    spec:\n      " +
		strings.ReplaceAll(strings.TrimSpace(confined), "\n", "\n      ") + "\n  volumeClaimTemplates: [{metadata: {name: data}, spec: {storageClassName: \"\", accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]"
	for name, tc := range map[string]struct {
		text    string
		change  func(o *manifest.Objects) // as the flags and the settings do
		allowed bool
	}{
		"hostPath":            {text: hostVolume("hostPath: {path: /etc}") + "\n---\n" + pod},
		"hostPath with type":  {text: hostVolume("hostPath: {path: /etc, type: Directory}") + "\n---\n" + pod},
		"local":               {text: hostVolume("local: {path: /etc}", affinity) + "\n---\n" + pod},
		"a List of JSON":      {text: asList(hostVolume("hostPath: {path: /etc}") + "\n---\n" + pod)},
		"bound by the claim":  {text: strings.Replace(hostVolume("hostPath: {path: /etc}"), "storageClassName", "volumeName: pv, storageClassName", 1) + "\n---\n" + pod},
		"bound by the volume": {text: hostVolume("hostPath: {path: /etc}", "claimRef: {namespace: default, name: data}") + "\n---\n" + pod},
		"a block device": {text: strings.Replace(hostVolume("local: {path: /dev/sda}", affinity, "volumeMode: Block"), "storageClassName", "volumeMode: Block, storageClassName", 1) + "\n---\n" +
			strings.Replace(pod, "volumeMounts: [{name: data, mountPath: /data}]", "volumeDevices: [{name: data, devicePath: /dev/x}]", 1)},
		"a claim of a StatefulSet": {text: set},
		"--pvc-dir":                {text: hostVolume("hostPath: {path: /etc}") + "\n---\n" + pod, change: nil},
		"--pvc":                    {text: hostVolume("hostPath: {path: /etc}") + "\n---\n" + pod, allowed: true, change: func(o *manifest.Objects) { o.ServeClaims(map[string]string{"data": "/srv"}) }},
		"--pvc without a claim":    {text: pod, allowed: true, change: func(o *manifest.Objects) { o.ServeClaims(map[string]string{"data": "/srv"}) }},
		"an API server": {text: hostVolume("hostPath: {path: /srv}") + "\n---\n" + pod, allowed: true, change: func(o *manifest.Objects) {
			o.Volumes["pv"] = manifest.OfAPIServer(o.Volumes["pv"])
		}},
		"NFS": {text: hostVolume("nfs: {server: nfs, path: /srv}") + "\n---\n" + pod, allowed: true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, level := range []string{"", "privileged", "baseline", "restricted"} {
				objects := load(t, tc.text)
				if tc.change != nil {
					tc.change(objects)
				}
				in := Input{Objects: objects, HostState: HostState{Facts: testFacts}, Settings: testSettings()}
				in.Settings.PodSecurity = level
				if name == "--pvc-dir" {
					in.Settings.ClaimDir = "/claims"
				}
				targets, problems := All(in)
				if len(targets) != 1 {
					t.Fatal(problems)
				}
				refused := slices.ContainsFunc(targets[0].Problems.Errors(), func(p problem.Problem) bool { return p.Reason == "HostPathOfManifest" })
				if want := !tc.allowed && level != "" && level != "privileged"; refused != want || tc.allowed && slices.ContainsFunc(problems.Errors(), func(p problem.Problem) bool { return strings.Contains(p.Field, "volumes") }) {
					t.Errorf("under %q: refused %v, want %v: %v", level, refused, want, problems)
				}
			}
		})
	}
}

// TestVolumeOfAnotherClaim covers a claim that names the directory of another claim. Neither a cluster nor the
// kubelet allows this.
func TestVolumeOfAnotherClaim(t *testing.T) {
	t.Parallel()
	for _, volume := range []string{"pvc_default_data", "other_data"} {
		objects := load(t, withClaim("owner", "registry.example/app:1"), strings.Replace(withClaim("another", "registry.example/app:1"), "name: another", "namespace: other, name: another", 1),
			strings.Replace(withClaim("web", "registry.example/app:1"), "claimName: data", "claimName: stolen", 1),
			strings.Replace(strings.Replace(dataClaim, "name: data", "name: stolen", 1), "storageClassName", "volumeName: "+volume+", storageClassName", 1))
		objects.ServeClaims(map[string]string{"data": "/srv"})
		if volume == "other_data" {
			delete(objects.Claims, "other/data")
		}
		in := Input{Objects: objects, HostState: HostState{Facts: testFacts}, Settings: testSettings()}
		in.Settings.ClaimDir = "/claims"
		targets, _ := All(in)
		i := slices.IndexFunc(targets, func(t Target) bool { return t.Plan.ID.Name == "web" })
		if !slices.ContainsFunc(targets[i].Problems.Errors(), func(p problem.Problem) bool { return strings.Contains(p.Message, "which is bound to the claim") }) {
			t.Errorf("%s: problems %v", volume, targets[i].Problems)
		}
	}
}

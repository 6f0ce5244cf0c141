package volume

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPlanPrintsEveryKind checks that podrun plan prints the struct of a volume's kind under the
// key make, without the content of files.
func TestPlanPrintsEveryKind(t *testing.T) {
	in := withObjects(podOf(t, `
securityContext: {fsGroup: 7}
containers: [{name: app, volumeMounts: [{name: secret, mountPath: /s}, {name: disk, mountPath: /s/in/ner}]}]
volumes:
- {name: disk, emptyDir: {}}
- {name: mem, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
- {name: secret, secret: {secretName: secret, items: [{key: user, path: a/user}], defaultMode: 256}}
- {name: sock, hostPath: {path: /run/x.sock, type: Socket}}
- {name: local, persistentVolumeClaim: {claimName: local, readOnly: true}}
- {name: block, persistentVolumeClaim: {claimName: block}}
- {name: export, persistentVolumeClaim: {claimName: export, readOnly: true}}
- {name: nfs, nfs: {server: nfs.example, path: /export, readOnly: true}}
- {name: image, image: {reference: example/tool}}
`))
	block := corev1.PersistentVolumeBlock
	in.PersistentVolumes = map[string]*corev1.PersistentVolume{}
	in.Claims = map[string]*corev1.PersistentVolumeClaim{}
	for name, spec := range map[string]corev1.PersistentVolumeSpec{
		"local":  {MountOptions: []string{"noexec"}, PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/srv"}}},
		"block":  {VolumeMode: &block, PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/dev/sdz"}}},
		"export": {MountOptions: []string{"nfsvers=4.1"}, PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "::1", Path: "/e"}}},
	} {
		in.PersistentVolumes[name] = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
		in.Claims[name] = &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeName: name}}
	}
	plan, problems := New(in)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	got := map[string]string{}
	for _, v := range plan.Volumes {
		var printed struct{ Make json.RawMessage }
		if err := json.Unmarshal(must(json.Marshal(v)), &printed); err != nil {
			t.Fatal(err)
		}
		got[v.Name] = string(printed.Make)
	}
	want := map[string]string{
		"block":  `{"type":"BlockDevice"}`,
		"disk":   `{"medium":"","metaDir":"/root-dir/pods/0123-ab/plugins/kubernetes.io~empty-dir/disk"}`,
		"export": `{"server":"::1","path":"/e","readOnly":true,"options":["nfsvers=4.1"]}`,
		"image":  "{}",
		"local":  `{"path":"/srv","readOnly":true,"options":["noexec"]}`,
		"mem":    `{"medium":"Memory","sizeBytes":1048576,"metaDir":"/root-dir/pods/0123-ab/plugins/kubernetes.io~empty-dir/mem"}`,
		"nfs":    `{"server":"nfs.example","path":"/export","readOnly":true}`,
		"secret": `{"files":[{"path":"a/user","mode":"0400","bytes":3}],"nested":["in/ner"]}`,
		"sock":   `{"type":"Socket"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !plan.Slow() {
		t.Error("a network volume does not count as slow")
	}
}

// TestSetupOfNoKind checks that a volume without a setup is an error, and that podrun does not skip
// the volume.
func TestSetupOfNoKind(t *testing.T) {
	if got := string(must(json.Marshal(Setup{}))); got != "null" {
		t.Errorf("prints %s, want null", got)
	}
	if err := makeVolume(t.Context(), Volume{}); err == nil {
		t.Error("made")
	}
}

package volume

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/internal/problem"
)

func withObjects(pod *corev1.Pod) Input {
	in := input(pod)
	in.ConfigMaps = map[string]*corev1.ConfigMap{"config": {
		Data: map[string]string{"a": "1", "b": "2"}, BinaryData: map[string][]byte{"bin": {0, 1, 2}},
	}}
	in.Secrets = map[string]*corev1.Secret{"secret": {
		Data: map[string][]byte{"password": []byte("hunter2"), "user": []byte("me")}, StringData: map[string]string{"user": "you"},
	}}
	in.Allocatable = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("4Gi")}
	return in
}

// shown returns a volume's files as "mode path=content".
func shown(v Volume) []string {
	var out []string
	for _, f := range v.Setup.Files.Files {
		mode, _, _ := strings.Cut(strings.TrimPrefix(string(must(json.Marshal(f))), `{"path":"`+f.Path+`","mode":"`), `"`)
		out = append(out, mode+" "+f.Path+"="+string(f.Data))
	}
	return out
}

func must(data []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return data
}

func TestFilesOfVolumes(t *testing.T) {
	in := withObjects(podOf(t, `
containers: [{name: app, resources: {requests: {memory: 1Mi}}}]
volumes:
- {name: all, configMap: {name: config, defaultMode: 0444}}
- {name: some, configMap: {name: config, items: [{key: b, path: deep/b, mode: 0400}]}}
- {name: secret, secret: {secretName: secret}}
- {name: none, configMap: {name: nope, optional: true}}
- {name: few, secret: {secretName: secret, optional: true, items: [{key: nope, path: x}, {key: user, path: u}]}}
- name: info
  downwardAPI: {items: [{path: ns, fieldRef: {fieldPath: metadata.namespace}}, {path: uid, fieldRef: {fieldPath: metadata.uid}}, {path: mem, resourceFieldRef: {containerName: app, resource: limits.memory}}]}
- name: mixed
  projected: {defaultMode: 0440, sources: [{configMap: {name: config}}, {secret: {name: secret, items: [{key: user, path: a}]}}, {downwardAPI: {items: [{path: n/name, fieldRef: {fieldPath: metadata.name}}]}}]}
`))
	plan, problems := New(in)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := map[string][]string{
		"all":    {"0444 a=1", "0444 b=2", "0444 bin=\x00\x01\x02"},
		"some":   {"0400 deep/b=2"},
		"secret": {"0644 password=hunter2", "0644 user=you"},
		"none":   nil,
		"few":    {"0644 u=you"},
		"info":   {"0644 mem=4294967296", "0644 ns=default", "0644 uid=0123-ab"},
		"mixed":  {"0440 a=you", "0440 b=2", "0440 bin=\x00\x01\x02", "0440 n/name=web"},
	}
	for _, v := range plan.Volumes {
		if diff := cmp.Diff(want[v.Name], shown(v)); diff != "" {
			t.Errorf("%s: %s", v.Name, diff)
		}
		if !v.ReadOnly || !plan.Sources()[v.Name].ReadOnly {
			t.Errorf("%s: containers may write", v.Name)
		}
	}
	if text := must(json.Marshal(plan)); bytes.Contains(text, []byte("hunter2")) || bytes.Contains(text, []byte("aHVudGVy")) {
		t.Errorf("the plan prints a Secret: %s", text)
	}
}

func TestMissingReferences(t *testing.T) {
	in := withObjects(podOf(t, `
containers: [{name: app}]
volumes:
- {name: a, configMap: {name: nope}}
- {name: b, configMap: {name: config, items: [{key: a, path: a}, {key: nope, path: b}]}}
- {name: c, secret: {secretName: nope}}
- {name: d, projected: {sources: [{secret: {name: secret, items: [{key: nope, path: x}]}}, {configMap: {name: nope}}, {configMap: {name: nope, optional: true}}]}}
- {name: e, downwardAPI: {items: [{path: x, resourceFieldRef: {containerName: nope, resource: limits.cpu}}]}}
- {name: f, projected: {sources: [{configMap: {name: config, items: [{key: a, path: x}, {key: a, path: x/y}]}}]}}
`))
	_, problems := New(in)
	want := []string{
		`spec.volumes[0].configMap: configmap "nope" not found`,
		`spec.volumes[1].configMap.items[1].key: configmap "config": references non-existent config key: nope`,
		`spec.volumes[2].secret: secret "nope" not found`,
		`spec.volumes[3].projected.sources[0].secret.items[0].key: secret "secret": references non-existent secret key: nope`,
		`spec.volumes[3].projected.sources[1].configMap: configmap "nope" not found`,
		`spec.volumes[4].downwardAPI.items[0]: container nope not found`,
		`spec.volumes[5].projected: path "x" is both a file and the directory of "x/y"`,
	}
	var got []string
	for _, p := range problems {
		got = append(got, p.Field+": "+p.Message)
		if p.Kind != problem.Manifest {
			t.Errorf("%s is of kind %q", p.Field, p.Kind)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWhatOnlyAServerIssues(t *testing.T) {
	for source, want := range map[string]string{
		"serviceAccountToken: {path: t}":         "spec.volumes[0].projected.sources[0].serviceAccountToken",
		"clusterTrustBundle: {path: t, name: x}": "spec.volumes[0].projected.sources[0].clusterTrustBundle",
		"podCertificate: {keyType: ED25519}":     "spec.volumes[0].projected.sources[0].podCertificate",
	} {
		_, problems := New(input(podOf(t, `volumes: [{name: a, projected: {sources: [{`+source+`}]}}]`)))
		if len(problems) != 1 || problems[0].Field != want || problems[0].Hint == "" || problems[0].Kind != "" {
			t.Errorf("%s: %+v", source, problems)
		}
	}
}

// TestPathsOfFiles covers the paths of a volume's files, including unusual paths that the API
// accepts.
func TestPathsOfFiles(t *testing.T) {
	for at, good := range map[string]bool{
		"a": true, "a/b": true, "./a": true, "a..b": true, "a/..b": true, strings.Repeat("x", 255): true,
		"": false, ".": false, "/a": false, "..": false, "../a": false, "a/../../b": false, "..data": false, "..2026_01_01_00_00_00.1": false,
		"a\x00b": false, strings.Repeat("x", 256): false, strings.Repeat("x", 64<<10): false, strings.Repeat("a/", 2048) + "b": false,
	} {
		err := newPayload(nil).add(at, nil, nil)
		if (err == nil) != good {
			t.Errorf("%.40q: %v, want good %v", at, err, good)
		}
		if err != nil && len(err.Error()) > 400 {
			t.Errorf("%.40q: a message of %d bytes", at, len(err.Error()))
		}
	}
}

func TestNestedMounts(t *testing.T) {
	pod := podOf(t, `
containers:
- name: app
  volumeMounts:
  - {name: v, mountPath: /etc/config}
  - {name: w, mountPath: /etc/config/sub}
  - {name: w, mountPath: /etc/config/file}
  - {name: w, mountPath: /etc/config/../config/other/deep/}
  - {name: w, mountPath: /etc/configuration}
  - {name: w, mountPath: /etc/config/..evil}
- name: part
  volumeMounts: [{name: v, mountPath: /part, subPath: x}, {name: w, mountPath: /part/below}]
`)
	got := nestedMounts(pod, "v", filesOf(t, map[string]string{"file": ""}))
	if diff := cmp.Diff([]string{"other/deep", "sub"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestBind(t *testing.T) {
	pv := func(name, size string, change ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}}}
		for _, c := range change {
			c(v)
		}
		return v
	}
	class := func(name string) func(*corev1.PersistentVolume) {
		return func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = name }
	}
	reserved := func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "reserved"}
	}
	claim := func(size, class string, change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}}}}
		for _, f := range change {
			f(c)
		}
		return c
	}
	volumes := map[string]*corev1.PersistentVolume{}
	for _, v := range []*corev1.PersistentVolume{pv("large", "10Gi"), pv("small", "1Gi"), pv("tiny", "1Mi"), pv("fast", "1Gi", class("fast")),
		pv("kept", "90Gi", reserved), pv("named", "1Gi"), pv("labeled", "1Gi", func(v *corev1.PersistentVolume) {
			v.Labels = map[string]string{"disk": "a"}
			v.Spec.StorageClassName = "l"
		})} {
		volumes[v.Name] = v
	}
	claims := map[string]*corev1.PersistentVolumeClaim{
		"ns/a":        claim("500Mi", ""),
		"ns/b":        claim("500Mi", ""),
		"ns/c":        claim("500Mi", ""), // no volume remains for this claim
		"ns/fast":     claim("1Gi", "fast"),
		"ns/reserved": claim("1Gi", ""),
		"ns/named":    claim("1Ti", "x", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "named" }),
		"ns/many": claim("1Mi", "", func(c *corev1.PersistentVolumeClaim) {
			c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		}),
		"ns/wrong": claim("1Mi", "l", func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "b"}}
		}),
		"ns/right": claim("1Mi", "l", func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "a"}}
		}),
	}
	for key, c := range claims {
		c.Namespace, c.Name, _ = strings.Cut(key, "/")
	}
	got := map[string]string{}
	for key, c := range Bind(claims, volumes) {
		got[key] = c.Spec.VolumeName
	}
	want := map[string]string{"ns/a": "small", "ns/b": "large", "ns/c": "", "ns/fast": "fast", "ns/reserved": "kept", "ns/named": "named",
		"ns/many": "", "ns/wrong": "", "ns/right": "labeled"}
	// No claim has an empty name.
	delete(got, "")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if claims["ns/a"].Spec.VolumeName != "" {
		t.Error("the input was changed")
	}
}

func TestEnvValue(t *testing.T) {
	const text = "# comment\n\n  ONE='1'\nTWO='two words' # why\nMULTI='a\nb'\r\nQUOTED='$ONE \\n \"x\"'\nEMPTY=''\nBLANK= 'x'\nLAST='end'"
	for key, want := range map[string]string{"ONE": "1", "TWO": "two words", "MULTI": "a\nb", "QUOTED": `$ONE \n "x"`, "EMPTY": "", "BLANK": "", "LAST": "end", "NONE": ""} {
		if got, err := envValue(text, key); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", key, got, err, want)
		}
	}
	for bad, want := range map[string]string{
		"A":             "line 1: no '='",
		"\n='x'":        "line 2: the variable has no name",
		"A ='x'":        "line 1: white space before '='",
		"A=x":           "line 1: the value is not in single quotes",
		"A=\"x\"":       "line 1: the value is not in single quotes",
		"B='x\ny'\nA=x": "line 3: the value is not in single quotes",
		"A='x":          "line 1: the single quote is not closed",
		"A='x'y":        "line 1: unexpected text after the closing quote",
	} {
		if _, err := envValue(bad, "A"); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", bad, err, want)
		}
	}
	// Text after the variable is ignored.
	if got, err := envValue("A='1'\nrubbish", "A"); err != nil || got != "1" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestF3FilesBounded covers many volumes with the keys of one large ConfigMap or Secret, for which
// podrun once used gigabytes of memory. podrun must limit the number of their files, and store
// their content only once.
func TestF3FilesBounded(t *testing.T) {
	data, secret := map[string]string{}, map[string][]byte{}
	for i := range 20000 {
		data[fmt.Sprintf("k%d", i)], secret[fmt.Sprintf("k%d", i)] = "", nil
	}
	in := Input{Pod: &corev1.Pod{}, ConfigMaps: map[string]*corev1.ConfigMap{"big": {Data: data}}, Secrets: map[string]*corev1.Secret{"big": {Data: secret}}}
	projected := corev1.ProjectedVolumeSource{}
	for range 1000 {
		in.Pod.Spec.Volumes = append(in.Pod.Spec.Volumes, corev1.Volume{Name: "c", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "big"}}}})
		projected.Sources = append(projected.Sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "big"}}})
	}
	in.Pod.Spec.Volumes = append(in.Pod.Spec.Volumes, corev1.Volume{Name: "p", VolumeSource: corev1.VolumeSource{Projected: &projected}})
	plan, problems := New(in)
	if len(problems) != 1 || problems[0].Field != "spec.volumes[2].configMap" || !strings.Contains(problems[0].Message, "more than 50000 files") {
		t.Errorf("%v", problems)
	}
	if n := plan.FileCount(); n > maxFiles {
		t.Errorf("%d files", n)
	}
}

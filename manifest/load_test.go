package manifest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest/input"
)

// load calls Load with one source, which must have no errors.
func load(t *testing.T, text string, opts Options) (*Objects, []string) {
	t.Helper()
	objects, problems := Load([]input.Source{{Name: "f", Data: []byte(text)}}, opts)
	if errs := problems.Errors(); len(errs) > 0 {
		t.Fatalf("problems:\n%s", errs)
	}
	var warnings []string
	for _, p := range problems {
		warnings = append(warnings, p.String())
	}
	return objects, warnings
}

func utf16le(text string) string {
	out := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(text)) {
		out = append(out, byte(u), byte(u>>8))
	}
	return string(out)
}

// TestForms loads the same two pods in every notation, and compares their names and lines.
func TestForms(t *testing.T) {
	block := func(name string) string { return strings.Replace(head, "name: a", "name: "+name, 1) }
	flow := `{apiVersion: "v1", kind: "Pod", metadata: {name: "%s"}, spec: {containers: [{name: "c", image: "i",}],},}`
	json := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"%s"},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	for name, tc := range map[string]struct{ text, want string }{
		"stream":                          {block("a") + "---\n" + block("b"), "a:1 b:9"},
		"separators, comments, blanks":    {"---\n# c\n\n" + block("a") + "\n--- # next\n\n---\n" + block("b") + "---\n", "a:4 b:15"},
		"document ends":                   {block("a") + "...\n" + block("b") + "...\n", "a:1 b:9"},
		"carriage returns":                {strings.ReplaceAll("---\n"+block("a")+"---\n"+block("b"), "\n", "\r\n"), "a:2 b:10"},
		"byte order mark":                 {"\xef\xbb\xbf" + block("a") + "---\n" + block("b"), "a:1 b:9"},
		"byte order marks":                {block("a") + "---\n\ufeff" + block("b") + "\ufeff---\n", "a:1 b:9"},
		"UTF-16":                          {utf16le(block("a") + "---\n" + block("b")), "a:1 b:9"},
		"a directive":                     {"%YAML 1.1\n---\n" + block("a") + "---\n" + block("b"), "a:3 b:11"},
		"KYAML":                           {"---\n" + fmt.Sprintf(flow, "a") + "\n---\n" + fmt.Sprintf(flow, "b") + "\n", "a:2 b:4"},
		"KYAML behind the separator":      {"--- " + fmt.Sprintf(flow, "a") + "\n--- " + fmt.Sprintf(flow, "b") + "\n", "a:1 b:2"},
		"JSON":                            {fmt.Sprintf(json, "a") + "\n---\n" + fmt.Sprintf(json, "b"), "a:1 b:3"},
		"JSON, one after another":         {fmt.Sprintf(json, "a") + fmt.Sprintf(json, "b"), "a:1 b:1"},
		"JSON with tabs, by jq":           {strings.ReplaceAll(fmt.Sprintf(json, "a"), ",", ",\n\t") + "\n" + fmt.Sprintf(json, "b") + "\n", "a:1 b:6"},
		"a list":                          {"apiVersion: v1\nkind: List\nitems:\n- " + indent(block("a")) + "- " + indent(block("b")), "a:4 b:11"},
		"a list in JSON":                  {`{"apiVersion":"v1","kind":"List","metadata":{"resourceVersion":""},"items":[` + "\n" + fmt.Sprintf(json, "a") + ",\n" + fmt.Sprintf(json, "b") + "\n]}", "a:2 b:3"},
		"a list of pods":                  {"apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n  spec: {containers: [{name: c, image: i}]}\n- metadata: {name: b}\n  spec: {containers: [{name: c, image: i}]}\n", "a:4 b:6"},
		"lists within a list":             {`{"kind":"List","items":[{"kind":"List","items":[` + fmt.Sprintf(json, "a") + "]},\n" + fmt.Sprintf(json, "b") + "]}", "a:1 b:2"},
		"a block scalar with a separator": {strings.Replace(block("a"), "image: i", "image: i\n    args:\n    - |\n      ---\n      x", 1) + "---\n" + block("b"), "a:1 b:13"},
		"aliases and merges":              {strings.Replace(block("a"), "image: i\n", "<<: &i {image: i}\n  - {name: d, <<: *i}\n", 1) + "---\n" + block("b"), "a:1 b:10"},
	} {
		t.Run(name, func(t *testing.T) {
			objects, _ := load(t, tc.text, Options{})
			var got []string
			for _, p := range objects.Pods {
				got = append(got, fmt.Sprintf("%s:%d", p.Object.Name, p.Position.Line))
				if c := p.Object.Spec.Containers[0]; c.Name != "c" || c.Image != "i" {
					t.Errorf("pod %s has container %s of image %s", p.Object.Name, c.Name, c.Image)
				}
			}
			if s := strings.Join(got, " "); s != tc.want {
				t.Errorf("got %s, want %s", s, tc.want)
			}
		})
	}
}

// indent converts a block to an entry of a list.
func indent(block string) string {
	return strings.TrimSuffix(strings.ReplaceAll(block, "\n", "\n  "), "  ")
}

// TestMergeKeys checks that merge keys have the effect that they have in kubectl and the kubelet, which convert
// YAML with the same library, but not in its strict mode.
func TestMergeKeys(t *testing.T) {
	for name, tc := range map[string]struct {
		labels string
		want   string
		err    string
	}{
		"a key replaces a merged one":            {"{<<: *c, name: b}", "b i", ""},
		"a key replaces one of several merges":   {"{<<: [*c, {image: j}], name: b}", "b i", ""},
		"two merge keys":                         {"{<<: *c, <<: {name: b}}", "b i", ""},
		"a merge key of a merged mapping":        {"{<<: {<<: *c, name: x}, name: b}", "b i", ""},
		"an alias of a mapping with a merge key": {"{<<: &d {<<: *c, name: b}}", "b i", ""},
		"a key before the merge key": {"{name: b, <<: *c}", "a i",
			"f:6: metadata.labels.name: the merge key << of line 6 replaces this value, as in kubectl (write the merge key before the keys that replace merged ones)"},
		"a duplicate key": {"{<<: *c, name: x, name: b}", "b i", "f:6: metadata.labels.name: duplicate field \"name\" (first at line 6) (remove one of them)"},
	} {
		t.Run(name, func(t *testing.T) {
			text := "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  annotations: &c {name: a, image: i}\n  labels: " + tc.labels + "\nspec: {containers: [{name: c, image: i}]}\n"
			if _, problems := Load([]input.Source{{Name: "f", Data: []byte(text)}}, Options{}); problems.String() != tc.err {
				t.Errorf("problems %q, want %q", problems, tc.err)
			}
			objects, _ := Load([]input.Source{{Name: "f", Data: []byte(text)}}, Options{Validate: Ignore})
			var kubectl corev1.Pod
			if err := sigsyaml.Unmarshal([]byte(text), &kubectl); err != nil {
				t.Fatal(err)
			}
			for _, labels := range []map[string]string{objects.Pods[0].Object.Labels, kubectl.Labels} {
				if got := labels["name"] + " " + labels["image"]; got != tc.want {
					t.Errorf("got %s, want %s", got, tc.want)
				}
			}
		})
	}
}

// TestDefaults checks that podrun sets the same defaults as an API server.
func TestDefaults(t *testing.T) {
	objects, warnings := load(t, head+"  - {name: d, image: 'i:1'}\n", Options{Namespace: "ci"})
	if warnings != nil {
		t.Errorf("warnings: %q", warnings)
	}
	pod := objects.Pods[0].Object
	spec := pod.Spec
	got := []any{pod.Namespace, pod.Kind, pod.APIVersion, spec.RestartPolicy, spec.DNSPolicy, spec.ServiceAccountName, *spec.EnableServiceLinks,
		*spec.TerminationGracePeriodSeconds, spec.Containers[0].ImagePullPolicy, spec.Containers[1].ImagePullPolicy, spec.Containers[0].TerminationMessagePath}
	want := []any{"ci", "Pod", "v1", corev1.RestartPolicyAlways, corev1.DNSClusterFirst, "default", true,
		int64(30), corev1.PullAlways, corev1.PullIfNotPresent, "/dev/termination-log"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestPrivileged covers privileged containers. Kubernetes' validation refuses them unless the
// manifest package sets a process-wide option.
func TestPrivileged(t *testing.T) {
	load(t, head+"    securityContext: {privileged: true}\n", Options{})
}

func TestGenerateName(t *testing.T) {
	n := 0
	suffix := func() string { n++; return fmt.Sprintf("x%04d", n) }
	one := "apiVersion: v1\nkind: Pod\nmetadata: {generateName: %s}\nspec: {containers: [{name: c, image: i}]}\n"
	long := strings.Repeat("l", 70)
	objects, _ := load(t, fmt.Sprintf(one, "ci-")+"---\n"+fmt.Sprintf(one, "ci-")+"---\n"+fmt.Sprintf(one, long), Options{Suffix: suffix})
	var got []string
	for _, p := range objects.Pods {
		got = append(got, p.Object.Name)
	}
	if diff := cmp.Diff([]string{"ci-x0001", "ci-x0002", long[:58] + "x0003"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestGenerateNameOfWorkloads checks that podrun generates the names of objects with a pod template as it does those
// of pods.
func TestGenerateNameOfWorkloads(t *testing.T) {
	for kind, w := range workloads {
		t.Run(kind, func(t *testing.T) {
			obj := w.make()
			meta, template := w.get(obj)
			switch o := obj.(type) {
			case *corev1.ReplicationController:
				o.Spec.Template = &corev1.PodTemplateSpec{}
				template = o.Spec.Template
			case *batchv1.CronJob:
				o.Spec.Schedule = "* * * * *"
			}
			meta.GenerateName = "web-"
			template.Labels = map[string]string{"app": "web"}
			template.Spec = corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}
			if hasController(kind) {
				template.Spec.RestartPolicy = corev1.RestartPolicyNever
			}
			data, err := json.Marshal(obj)
			if err != nil {
				t.Fatal(err)
			}
			var fields map[string]any
			if err := json.Unmarshal(data, &fields); err != nil {
				t.Fatal(err)
			}
			fields["apiVersion"], fields["kind"] = w.apiVersion, kind
			switch kind {
			case "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet":
				fields["spec"].(map[string]any)["selector"] = metav1.LabelSelector{MatchLabels: template.Labels}
			}
			if data, err = json.Marshal(fields); err != nil {
				t.Fatal(err)
			}
			objects, warnings := load(t, string(data), Options{Suffix: func() string { return "x0001" }})
			if p := objects.Pods[0]; p.Object.Name != "web-x0001" || p.Object.GenerateName != "web-" || p.From != kind+" web-x0001" {
				t.Errorf("the pod is %s (%s) of %s", p.Object.Name, p.Object.GenerateName, p.From)
			}
			for _, warning := range warnings {
				if !strings.Contains(warning, kind+" default/web-x0001: ") {
					t.Errorf("warning %q", warning)
				}
			}
			_, problems := Load([]input.Source{{Name: "f", Data: data}}, Options{Namespace: "default"})
			if got, want := problems.Errors().String(), "f:1: "+kind+": metadata.generateName: this command requires metadata.name: it does not generate names"; got != want {
				t.Errorf("without generated names: %s, want %s", got, want)
			}
		})
	}
}

// TestOtherObjects checks that Load returns an object of each kind under its key, with
// defaults.
func TestOtherObjects(t *testing.T) {
	objects, _ := load(t, head+`---
{apiVersion: v1, kind: ConfigMap, metadata: {name: cm, namespace: other}, data: {k: v}}
---
{apiVersion: v1, kind: Secret, metadata: {name: s}, data: {a: YQ==, b: YQ==}, stringData: {b: B}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c}, spec: {accessModes: [ReadWriteOnce], volumeName: pv, storageClassName: "", resources: {requests: {storage: 1Gi}}}, status: {phase: Bound}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv, namespace: x}, spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, hostPath: {path: /data}}}
---
{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: rc}, handler: kata}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: pc}, value: 7}
`, Options{})
	if cm := objects.ConfigMaps["other/cm"]; cm == nil || cm.Data["k"] != "v" {
		t.Errorf("ConfigMaps: %v", objects.ConfigMaps)
	}
	s := objects.Secrets["default/s"]
	if s == nil || string(s.Data["a"]) != "a" || string(s.Data["b"]) != "B" || s.StringData != nil || s.Type != corev1.SecretTypeOpaque {
		t.Errorf("Secrets: %v", objects.Secrets)
	}
	if c := objects.Claims["default/c"]; c == nil || c.Status.Phase != "Pending" && c.Status.Phase != "" || *c.Spec.VolumeMode != corev1.PersistentVolumeFilesystem {
		t.Errorf("claims: %v", objects.Claims)
	}
	if v := objects.Volumes["pv"]; v == nil || v.Namespace != "" || v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		t.Errorf("volumes: %v", objects.Volumes)
	}
	if rc := objects.RuntimeClasses["rc"]; rc == nil || rc.Handler != "kata" {
		t.Errorf("RuntimeClasses: %v", objects.RuntimeClasses)
	}
	if pc := objects.PriorityClasses["pc"]; pc == nil || pc.Value != 7 {
		t.Errorf("PriorityClasses: %v", objects.PriorityClasses)
	}
}

// TestLocate checks that a problem that another package finds in a pod gets its position in the
// file.
func TestLocate(t *testing.T) {
	objects, _ := load(t, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n    spec:\n      hostNetwork: true\n      containers:\n      - {name: c, image: i}\n", Options{})
	got := objects.Pods[0].Locate(problem.Problem{Field: "spec.hostNetwork", Message: "no"}).String()
	if want := "f:9: Pod default/web: spec.template.spec.hostNetwork: no"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := objects.Pods[0].Locate(problem.Problem{Message: "no"}).String(), "f:1: Pod default/web: no"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestGates checks that podrun drops and reports a field whose feature gate is off, and prints
// a warning for an unknown gate.
func TestGates(t *testing.T) {
	objects, warnings := load(t, head+"  volumes:\n  - name: v\n    projected:\n      sources:\n      - clusterTrustBundle: {name: b, path: p}\n      - configMap: {name: m}\n", Options{})
	want := []string{
		"f:1: Pod default/a: volume \"v\" (Projected) has no sources provided",
		"f:12: Pod default/a: spec.volumes[0].projected.sources[0].clusterTrustBundle: ignored: the feature gate of this field is disabled by default in Kubernetes",
	}
	if diff := cmp.Diff(want, warnings); diff != "" {
		t.Error(diff)
	}
	if s := objects.Pods[0].Object.Spec.Volumes[0].Projected.Sources; s[0].ClusterTrustBundle != nil || s[1].ConfigMap == nil {
		t.Errorf("sources: %v", s)
	}
	problems := SetGates(map[string]bool{"NoSuchGate": true, "SidecarContainers": false, "NodeSwap": true})
	if want := "featureGates.NoSuchGate: unknown feature gate, ignored\nfeatureGates.SidecarContainers: can no longer be changed, ignored"; problems.String() != want || len(problems.Errors()) > 0 {
		t.Errorf("problems: %s", problems)
	}
}

// Decode must apply the limits for manifests to facts from a file.
func TestDecodeBounded(t *testing.T) {
	var into struct {
		Capacity corev1.ResourceList `json:"capacity"`
	}
	for text, want := range map[string]string{
		"capacity: {cpu: 1}":                                        "",
		`{"capacity": {"cpu": "2"}}`:                                "",
		"capacity: {cpu: \"1e9999999\"}":                            "f: capacity[cpu]: not a valid quantity",
		"a: [" + strings.Repeat("1,", 1<<20):                        "more than 250000 values",
		"a: " + strings.Repeat("[", 200) + strings.Repeat("]", 200): "nested more than 100 deep",
		"a: [":        "not valid YAML",
		"capacity: 1": "f: json: cannot unmarshal",
	} {
		err := Decode(input.Source{Name: "f", Data: []byte(text)}, &into)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.40s: %v, want %q", text, err, want)
		}
	}
}

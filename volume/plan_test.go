package volume

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
)

const mi = 1 << 20

var testID = identity.Pod{Namespace: "default", Name: "web", UID: "0123-ab"}

// podOf returns a pod with a spec in YAML.
func podOf(t *testing.T, spec string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(spec), &pod.Spec); err != nil {
		t.Fatal(err)
	}
	return pod
}

func input(pod *corev1.Pod) Input {
	return Input{Pod: pod, ID: testID, Layout: identity.Layout{RootDir: "/root-dir"}}
}

// TestNewPlansWhatTheKubeletMakes covers the volumes of kubelet-golden 19-emptydir, 20-hostpath and
// 25-hugepages.
func TestNewPlansWhatTheKubeletMakes(t *testing.T) {
	in := input(podOf(t, `
securityContext: {fsGroup: 1234, fsGroupChangePolicy: OnRootMismatch}
containers:
- {name: app, resources: {limits: {memory: 256Mi, hugepages-2Mi: 4Mi}}}
volumes:
- {name: disk, emptyDir: {}}
- {name: limited, emptyDir: {sizeLimit: 10Mi}}
- {name: mem, emptyDir: {medium: Memory}}
- {name: memlimited, emptyDir: {medium: Memory, sizeLimit: 16Mi}}
- {name: huge, emptyDir: {medium: HugePages}}
- {name: sock, hostPath: {path: /run/x.sock, type: Socket}}
- {name: any, hostPath: {path: /srv}}
- {name: nothing}
`))
	in.MemoryLimit = 256 * mi
	in.MemoryAllocatable = 4096 * mi
	plan, problems := New(in)
	if len(problems) > 0 {
		t.Fatalf("problems: %v", problems)
	}
	gid := int64(1234)
	empty := func(name string, e EmptyDir) Volume {
		e.MetaDir = "/root-dir/pods/0123-ab/plugins/kubernetes.io~empty-dir/" + name
		return Volume{Name: name, Kind: "emptyDir", Plugin: "kubernetes.io~empty-dir", FSGroup: &gid, Setup: Setup{Kind: SetupEmptyDir, EmptyDir: &e},
			HostPath: "/root-dir/pods/0123-ab/volumes/kubernetes.io~empty-dir/" + name}
	}
	want := []Volume{
		empty("disk", EmptyDir{}),
		empty("limited", EmptyDir{}),
		empty("mem", EmptyDir{Medium: "Memory", SizeBytes: 256 * mi}),
		empty("memlimited", EmptyDir{Medium: "Memory", SizeBytes: 16 * mi}),
		empty("huge", EmptyDir{Medium: "HugePages", PageSize: "2Mi"}),
		{Name: "sock", Kind: "hostPath", HostPath: "/run/x.sock", Setup: checkHostPath(corev1.HostPathSocket)},
		{Name: "any", Kind: "hostPath", HostPath: "/srv", Setup: checkHostPath(corev1.HostPathUnset)},
		empty("nothing", EmptyDir{}),
	}
	if diff := cmp.Diff(want, plan.Volumes); diff != "" {
		t.Error(diff)
	}
	if got := plan.Sources()["sock"]; got != (Source{Kind: "hostPath", HostPath: "/run/x.sock"}) {
		t.Errorf("source of sock: %+v", got)
	}
	if _, err := json.Marshal(plan); err != nil {
		t.Errorf("the plan cannot be printed: %v", err)
	}
}

func TestNewReportsEveryVolumeItCannotPlan(t *testing.T) {
	_, problems := New(input(podOf(t, `
containers:
- {name: app, resources: {limits: {hugepages-2Mi: 4Mi, hugepages-1Gi: 1Gi}}}
volumes:
- {name: a, configMap: {name: x}}
- {name: b, emptyDir: {}}
- {name: c, persistentVolumeClaim: {claimName: x}}
- {name: d, emptyDir: {medium: HugePages}}
- {name: e, emptyDir: {medium: HugePages-64Ki}}
- {name: f, emptyDir: {medium: Disk}}
`)))
	want := []string{
		`spec.volumes[0].configMap: configmap "x" not found`,
		`spec.volumes[2].persistentVolumeClaim.claimName: persistentvolumeclaim "x" not found`,
		"spec.volumes[3].emptyDir: medium: HugePages can't be used if container requests multiple huge page sizes",
		"spec.volumes[4].emptyDir: medium HugePages-64Ki: hugePages storage requested, but there is no resource request for huge pages",
		`spec.volumes[5].emptyDir: unknown storage medium "Disk"`,
	}
	var got []string
	for _, p := range problems {
		if p.Object != "Pod default/web" || p.Hint == "" || p.Warning {
			t.Errorf("problem %+v: want the pod's name and a hint, and no warning", p)
		}
		got = append(got, p.Field+": "+p.Message)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := problem.Refuse(problem.Refused, problems); err == nil {
		t.Error("nothing refused")
	}
}

func TestTmpfsSize(t *testing.T) {
	q := func(s string) *resource.Quantity { v := resource.MustParse(s); return &v }
	for _, test := range []struct {
		name               string
		allocatable, limit int64
		sizeLimit          *resource.Quantity
		want               int64
	}{
		{"nothing known: the kernel's own cap", 0, 0, nil, 0},
		{"the node's memory", 4096, 0, nil, 4096},
		{"the pod's limit", 4096, 256, nil, 256},
		{"a limit beyond the node's", 4096, 9999, nil, 4096},
		{"sizeLimit", 4096, 256, q("16"), 16},
		{"sizeLimit beyond the pod's limit", 4096, 256, q("1Gi"), 256},
		{"a sizeLimit of 0 counts as none", 4096, 256, q("0"), 256},
		{"only sizeLimit", 0, 0, q("1Ki"), 1024},
	} {
		if got := tmpfsSize(test.allocatable, test.limit, test.sizeLimit); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

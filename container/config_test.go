package container

import (
	"hash/fnv"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	hashutil "k8s.io/kubernetes/pkg/util/hash"

	"github.com/podrun/podrun/internal/identity"
)

// TestHash compares hashes with those that a kubelet v1.36.3 sent.
func TestHash(t *testing.T) {
	for name, want := range map[string]string{"app": "7737e450", "sidecar": "c38a5e92", "none": "16eadf01"} {
		if got := Hash(&corev1.Container{Name: name, Image: "127.0.0.1:5000/busybox:1.36"}); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	for _, c := range []corev1.Container{{}, {Name: "a"}, {Name: "ü\"<&>\x7f\u2028", Image: "host:5000/a/b@sha256:0"}} {
		h := fnv.New32a()
		hashutil.DeepHashObject(h, []byte(asJSON(map[string]string{"name": c.Name, "image": c.Image})))
		if got, want := Hash(&c), strconv.FormatUint(uint64(h.Sum32()), 16); got != want {
			t.Errorf("%q: got %s, a kubelet has %s", c.Name, got, want)
		}
	}
}

func TestKinds(t *testing.T) {
	in := input(corev1.Container{})
	in.Pod.Spec.InitContainers = []corev1.Container{{Name: "init"}, {Name: "side", RestartPolicy: ptr(corev1.ContainerRestartPolicyAlways)}}
	for name, want := range map[string][2]string{
		"init": {"init", "spec.initContainers{init}"}, "side": {"sidecar", "spec.initContainers{side}"}, "app": {"app", "spec.containers{app}"},
	} {
		in.Name = name
		if p := mustPlan(t, in); string(p.Kind) != want[0] || p.FieldPath != want[1] {
			t.Errorf("%s: got %s, %s", name, p.Kind, p.FieldPath)
		}
	}
}

// TestConfigDoesNotChangeThePlan checks that late values do not remain in the plan, because podrun
// uses the same plan for every restart.
func TestConfigDoesNotChangeThePlan(t *testing.T) {
	p := mustPlan(t, input(corev1.Container{Env: []corev1.EnvVar{{Name: "IP", ValueFrom: field("status.podIP")}}}))
	first, err := p.Config(Late{Attempt: 1, PodIPs: []string{"10.0.0.1"}, ImageUsername: "app", ImageID: "x"})
	if err != nil {
		t.Fatal(err)
	}
	second, err := p.Config(Late{Attempt: 2, PodIPs: []string{"10.0.0.2"}, ImageUID: ptr[int64](3), ImageID: "y"})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []*runtimeapi.ContainerConfig{first, second} {
		got := []any{c.Metadata.Attempt, c.LogPath, c.Annotations[identity.AnnotationRestartCount], envOf(c), c.Image.Image,
			c.Linux.SecurityContext.RunAsUsername, c.Linux.SecurityContext.RunAsUser.GetValue()}
		want := [][]any{
			{uint32(1), "app/1.log", "1", "IP=10.0.0.1", "x", "app", int64(0)},
			{uint32(2), "app/2.log", "2", "IP=10.0.0.2", "y", "", int64(3)},
		}[i]
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("config %d: -want +got:\n%s", i, diff)
		}
	}
}

func TestPreviewShowsWhatIsLate(t *testing.T) {
	in := input(corev1.Container{
		Image: "busybox", TerminationMessagePath: "/dev/termination-log",
		Env:             []corev1.EnvVar{{Name: "IP", ValueFrom: field("status.podIP")}},
		VolumeMounts:    []corev1.VolumeMount{{Name: "v", MountPath: "/v"}, {Name: "w", MountPath: "/w"}},
		SecurityContext: &corev1.SecurityContext{RunAsNonRoot: ptr(true)},
	})
	c, err := mustPlan(t, in).Preview(map[string]MountSource{"w": {HostPath: "/known"}})
	if err != nil {
		t.Fatal(err)
	}
	got := append([]string{envOf(c), c.Image.Image, c.Image.UserSpecifiedImage, c.Linux.SecurityContext.RunAsUsername}, mountsOf(c.Mounts)...)
	want := []string{"IP=(podIP)", "(imageID)", "busybox", "(imageUser)", "/v (volume v)", "/w /known",
		"/etc/hosts /var/lib/podrun/pods/u/etc-hosts", "/dev/termination-log /var/lib/podrun/pods/u/containers/app/(random)"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAnnotations(t *testing.T) {
	in := input(corev1.Container{
		TerminationMessagePath: "/t", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}}},
	})
	in.Pod.DeletionGracePeriodSeconds, in.Pod.Spec.TerminationGracePeriodSeconds = ptr[int64](5), ptr[int64](30)
	want := map[string]string{
		identity.AnnotationHash:                     Hash(&in.Pod.Spec.Containers[0]),
		identity.AnnotationRestartCount:             "0",
		identity.AnnotationTerminationMessagePath:   "/t",
		identity.AnnotationTerminationMessagePolicy: "File",
		identity.AnnotationPodDeletionGracePeriod:   "5",
		identity.AnnotationPodTerminationGrace:      "30",
		identity.AnnotationPreStopHandler:           `{"sleep":{"seconds":1}}`,
	}
	if diff := cmp.Diff(want, mustConfig(t, in, Late{}).Annotations); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func memory(request, limit string) corev1.ResourceRequirements {
	list := func(q string) corev1.ResourceList {
		if q == "" {
			return nil
		}
		return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(q)}
	}
	return corev1.ResourceRequirements{Requests: list(request), Limits: list(limit)}
}

func TestSwap(t *testing.T) {
	for _, tt := range []struct {
		version int
		limits  bool
		swap    int64
		unified map[string]string
	}{
		{1, true, 64 << 20, nil},
		{1, false, 0, nil},
		{2, true, 0, map[string]string{"memory.oom.group": "1", "memory.swap.max": "0"}},
		{2, false, 0, map[string]string{"memory.oom.group": "1"}},
	} {
		in := input(corev1.Container{Resources: memory("", "64Mi")})
		in.Facts.Cgroup.Version, in.SwapLimits = tt.version, tt.limits
		r := mustConfig(t, in, Late{}).Linux.Resources
		if diff := cmp.Diff(tt.unified, r.Unified); diff != "" || r.MemorySwapLimitInBytes != tt.swap {
			t.Errorf("v%d, limits %v: swap %d, %s", tt.version, tt.limits, r.MemorySwapLimitInBytes, diff)
		}
	}
}

// KEP-2400: a container gets the same fraction of the host's swap that it requests of the
// host's memory.
func TestLimitedSwap(t *testing.T) {
	for name, tt := range map[string]struct {
		resources corev1.ResourceRequirements
		priority  int32
		version   int
		gate      bool
		want      string
	}{
		"an eighth":       {memory("128Mi", "256Mi"), 0, 2, true, "536870912"},
		"no limit":        {memory("128Mi", ""), 0, 2, true, "536870912"},
		"guaranteed":      {memory("128Mi", "128Mi"), 0, 2, true, "0"},
		"best effort":     {memory("", ""), 0, 2, true, "0"},
		"more than there": {memory("2Gi", ""), 0, 2, true, "0"},
		"critical":        {memory("128Mi", "256Mi"), 2000000000, 2, true, "0"},
		"gate off":        {memory("128Mi", "256Mi"), 0, 2, false, "0"},
		"cgroup v1":       {memory("128Mi", "256Mi"), 0, 1, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(corev1.Container{Resources: tt.resources})
			in.Pod.Spec.Priority = &tt.priority
			in.Facts.Cgroup.Version, in.SwapLimits, in.Facts.SwapTotal = tt.version, true, 4<<30
			in.Settings.SwapBehavior, in.Settings.FeatureGates = "LimitedSwap", map[string]bool{"NodeSwap": tt.gate}
			r := mustConfig(t, in, Late{}).Linux.Resources
			if got := r.Unified["memory.swap.max"]; got != tt.want {
				t.Errorf("memory.swap.max %q, want %q", got, tt.want)
			}
		})
	}
}

// KEP-2570: memory.high is request + 0.9 × (limit − request), rounded down to a page.
func TestMemoryQoS(t *testing.T) {
	for _, tt := range []struct {
		name           string
		request, limit string
		want           string
	}{
		{"limit", "50Mi", "100Mi", "99614720"}, // 95 MiB
		// This is 50 MiB + 0.9 × 974 MiB, of the node's 1 GiB.
		{"no limit", "50Mi", "", "971608064"},
		{"guaranteed", "100Mi", "100Mi", ""}, // memory.high is not set, because there is nothing to throttle
		// As in the kubelet, the request equals the limit.
		{"best effort", "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := input(corev1.Container{Resources: memory(tt.request, tt.limit)})
			in.Facts.Cgroup.Version = 2
			in.Settings.FeatureGates = map[string]bool{"MemoryQoS": true}
			want := map[string]string{"memory.oom.group": "1", "memory.min": "0", "memory.low": "0"}
			if tt.want != "" {
				want["memory.high"] = tt.want
			}
			if diff := cmp.Diff(want, mustConfig(t, in, Late{}).Linux.Resources.Unified); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestHugepages(t *testing.T) {
	in := input(corev1.Container{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"hugepages-2Mi": resource.MustParse("4Mi")}}})
	in.Facts.HugePageSizes = []int64{2 << 20, 1 << 30}
	in.Pod.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{
		"hugepages-2Mi": resource.MustParse("8Mi"), "hugepages-1Gi": resource.MustParse("1Gi"),
	}}
	crio := in
	crio.Facts.Runtime.Name = "cri-o"
	if got := mustConfig(t, crio, Late{}).Linux.Resources.HugepageLimits; len(got) > 0 {
		t.Errorf("without the controller, on CRI-O: %v", got)
	}
	crio.Facts.Cgroup.Controllers = []string{"hugetlb"}
	if got := mustConfig(t, crio, Late{}).Linux.Resources.HugepageLimits; len(got) == 0 {
		t.Error("with the controller, on CRI-O: no limits")
	}
	got := map[string]uint64{}
	for _, l := range mustConfig(t, in, Late{}).Linux.Resources.HugepageLimits {
		got[l.PageSize] = l.Limit
	}
	if diff := cmp.Diff(map[string]uint64{"2MB": 4 << 20, "1GB": 1 << 30}, got); diff != "" {
		t.Errorf("the container's limit, or else the pod's: -want +got:\n%s", diff)
	}
}

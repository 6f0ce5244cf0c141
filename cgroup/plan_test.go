package cgroup

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
)

const uid = "0a1b-2c3d"

// pod returns a pod with one container with the given requests and limits.
func pod(requests, limits corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: types.UID(uid)},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "app", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits},
		}}},
	}
}

func list(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func podOf(class corev1.PodQOSClass) *corev1.Pod {
	switch class {
	case corev1.PodQOSGuaranteed:
		return pod(list("1", "64Mi"), list("1", "64Mi"))
	case corev1.PodQOSBurstable:
		return pod(list("500m", "64Mi"), nil)
	}
	return pod(nil, nil)
}

// TestParent checks the names, because the runtime refuses a wrong name (cri-tools#1696, cri-o#842:
// the slice's name occurs twice), or puts the pod into a group without limits.
func TestParent(t *testing.T) {
	for _, tc := range []struct {
		driver, root string
		class        corev1.PodQOSClass
		parent, path string
	}{
		{host.DriverCgroupfs, "/", corev1.PodQOSGuaranteed, "/kubepods/pod0a1b-2c3d", "/kubepods/pod0a1b-2c3d"},
		{host.DriverCgroupfs, "", corev1.PodQOSBurstable, "/kubepods/burstable/pod0a1b-2c3d", "/kubepods/burstable/pod0a1b-2c3d"},
		{host.DriverCgroupfs, "/a/b-c/", corev1.PodQOSBestEffort, "/a/b-c/kubepods/besteffort/pod0a1b-2c3d", "/a/b-c/kubepods/besteffort/pod0a1b-2c3d"},
		{host.DriverCgroupfs, "/../../etc", corev1.PodQOSGuaranteed, "/etc/kubepods/pod0a1b-2c3d", "/etc/kubepods/pod0a1b-2c3d"},
		{host.DriverSystemd, "/", corev1.PodQOSGuaranteed, "kubepods-pod0a1b_2c3d.slice", "/kubepods.slice/kubepods-pod0a1b_2c3d.slice"},
		{host.DriverSystemd, "/", corev1.PodQOSBurstable, "kubepods-burstable-pod0a1b_2c3d.slice", "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b_2c3d.slice"},
		{host.DriverSystemd, "/foo", corev1.PodQOSBestEffort, "foo-kubepods-besteffort-pod0a1b_2c3d.slice", "/foo.slice/foo-kubepods.slice/foo-kubepods-besteffort.slice/foo-kubepods-besteffort-pod0a1b_2c3d.slice"},
		{host.DriverSystemd, "/a-b/c", corev1.PodQOSGuaranteed, "a_b-c-kubepods-pod0a1b_2c3d.slice", "/a_b.slice/a_b-c.slice/a_b-c-kubepods.slice/a_b-c-kubepods-pod0a1b_2c3d.slice"},
	} {
		t.Run(tc.driver+tc.root+string(tc.class), func(t *testing.T) {
			s := nodeconfig.Default()
			s.CgroupRoot = tc.root
			facts := v1Facts()
			facts.Cgroup.Driver = tc.driver
			p := New(Input{Pod: podOf(tc.class), Facts: facts, Settings: s})
			if p.Parent() != tc.parent {
				t.Errorf("parent %q, want %q", p.Parent(), tc.parent)
			}
			if p.Pods[0].Path != tc.path {
				t.Errorf("path %q, want %q", p.Pods[0].Path, tc.path)
			}
		})
	}
}

func TestUnit(t *testing.T) {
	for path, want := range map[string][2]string{
		"/kubepods.slice":                          {"kubepods.slice", "-.slice"},
		"/kubepods.slice/kubepods-burstable.slice": {"kubepods-burstable.slice", "kubepods.slice"},
	} {
		name, parent := unit(path)
		if got := [2]string{name, parent}; got != want {
			t.Errorf("unit(%s) = %v, want %v", path, got, want)
		}
	}
}

func TestWithoutQOSGroups(t *testing.T) {
	s := nodeconfig.Default()
	s.CgroupsPerQOS = false
	p := New(Input{Pod: podOf(corev1.PodQOSBurstable), Facts: v1Facts(), Settings: s})
	if p.Parent() != "" || len(p.Shared) != 0 || len(p.Pods) != 0 {
		t.Errorf("plan without cgroupsPerQOS has groups: %+v", p)
	}
}

func TestPodResources(t *testing.T) {
	huge := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), "hugepages-2Mi": resource.MustParse("4Mi")}
	podLevel := pod(nil, nil)
	podLevel.Spec.Resources = &corev1.ResourceRequirements{Requests: list("500m", "64Mi"), Limits: list("1", "128Mi")}
	for _, tc := range []struct {
		name   string
		pod    *corev1.Pod
		adjust func(*Input)
		want   Resources
	}{
		{"BestEffort", pod(nil, nil), nil, Resources{CPUShares: 2}},
		{"requests alone", pod(list("250m", "1Gi"), nil), nil, Resources{CPUShares: 256}},
		{"limits", pod(list("250m", "1Gi"), list("500m", "2Gi")), nil,
			Resources{CPUShares: 256, CPUQuota: 50000, CPUPeriod: 100000, Memory: 2 << 30}},
		{"tiny limit", pod(list("1m", "1Gi"), list("1m", "1Gi")), nil,
			Resources{CPUShares: 2, CPUQuota: 1000, CPUPeriod: 100000, Memory: 1 << 30}},
		{"no CFS quota", pod(list("1", "1Gi"), list("1", "1Gi")), func(in *Input) { in.Settings.CPUCFSQuota = false },
			Resources{CPUShares: 1024, CPUQuota: -1, CPUPeriod: 100000, Memory: 1 << 30}},
		{"period without its gate", pod(list("1", "1Gi"), list("1", "1Gi")), func(in *Input) { in.Settings.CPUCFSQuotaPeriod = 10 * time.Millisecond },
			Resources{CPUShares: 1024, CPUQuota: 100000, CPUPeriod: 100000, Memory: 1 << 30}},
		{"period with its gate", pod(list("1", "1Gi"), list("1", "1Gi")), func(in *Input) {
			in.Settings.CPUCFSQuotaPeriod = 10 * time.Millisecond
			in.Settings.FeatureGates = map[string]bool{"CustomCPUCFSQuotaPeriod": true}
		}, Resources{CPUShares: 1024, CPUQuota: 10000, CPUPeriod: 10000, Memory: 1 << 30}},
		{"pids", pod(nil, nil), func(in *Input) { in.Settings.PodPidsLimit = 100 }, Resources{CPUShares: 2, PidsLimit: 100}},
		{"pids without the controller", pod(nil, nil), func(in *Input) {
			in.Settings.PodPidsLimit = 100
			in.Facts.Cgroup.Controllers = []string{"cpu", "memory"}
		}, Resources{CPUShares: 2}},
		{"pod level", podLevel, nil, Resources{CPUShares: 512, CPUQuota: 100000, CPUPeriod: 100000, Memory: 128 << 20}},
		{"huge pages, not mounted", pod(huge, huge), nil, Resources{CPUShares: 1024, CPUQuota: 100000, CPUPeriod: 100000}},
		{"huge pages", pod(huge, huge), func(in *Input) {
			in.Facts.Cgroup.Controllers = []string{"cpu", "hugetlb"}
			in.Facts.HugePageSizes = []int64{2 << 20, 1 << 30}
		}, Resources{CPUShares: 1024, CPUQuota: 100000, CPUPeriod: 100000, HugePages: []HugePages{{"2MB", 4 << 20}, {"1GB", 0}}}},
		{"v2", pod(list("1", "1Gi"), nil), func(in *Input) { in.Facts.Cgroup.Version = 2 }, Resources{CPUWeight: 39}},
		{"v2 BestEffort", pod(nil, nil), func(in *Input) { in.Facts.Cgroup.Version = 2 }, Resources{CPUWeight: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := Input{Pod: tc.pod, Facts: v1Facts(), Settings: nodeconfig.Default()}
			if tc.adjust != nil {
				tc.adjust(&in)
			}
			if diff := cmp.Diff(tc.want, New(in).Pods[0].Resources); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestSharedWeights checks that the weights include podrun's running Burstable pods, and the
// planned pod exactly once.
func TestSharedWeights(t *testing.T) {
	facts := v1Facts()
	facts.Pods = []host.Pod{
		{UID: "a", Managed: true, Ready: true, QOSClass: corev1.PodQOSBurstable, Requests: list("250m", "1Mi")},
		{UID: "b", Managed: true, Reserved: true, QOSClass: corev1.PodQOSBurstable, Requests: list("250m", "1Mi")},
		{UID: "gone", Managed: true, QOSClass: corev1.PodQOSBurstable, Requests: list("8", "1Mi")},
		{UID: "guaranteed", Managed: true, Ready: true, QOSClass: corev1.PodQOSGuaranteed, Requests: list("8", "1Mi")},
		{UID: "foreign", Ready: true, QOSClass: corev1.PodQOSBurstable, Requests: list("8", "1Mi")},
		{UID: uid, Managed: true, Ready: true, QOSClass: corev1.PodQOSBurstable, Requests: list("4", "1Mi")},
	}
	for class, want := range map[corev1.PodQOSClass]map[string]uint64{
		corev1.PodQOSGuaranteed: {"/kubepods": 2048},
		corev1.PodQOSBurstable:  {"/kubepods": 2048, "/kubepods/burstable": 1024},
		corev1.PodQOSBestEffort: {"/kubepods": 2048, "/kubepods/besteffort": 2},
	} {
		p := New(Input{Pod: podOf(class), Facts: facts, Settings: nodeconfig.Default()})
		got := map[string]uint64{}
		for _, g := range p.Shared {
			got[g.Path] = g.Resources.CPUShares
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", class, diff)
		}
	}
}

package cgroup

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	k8scorev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
)

// recordings is the directory with the recorded pods, calls and events of a real kubelet.
const recordings = "../../shared/kubelet-golden"

// unlimited is the value that the kernel shows on cgroup v1 if there is no memory limit.
const unlimited = 9223372036854771712

// TestKubeletValues compares the values of the pod's group with those that a kubelet v1.36.3 set on
// cgroup v1.
func TestKubeletValues(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(recordings, "fake", "*.json"))
	if err != nil || len(files) == 0 {
		t.Skip("the recordings are not on this machine")
	}
	compared := 0
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		want := recorded(t, file)
		if want == nil {
			// The kubelet refused the pod, or the pod had terminated.
			continue
		}
		compared++
		t.Run(name, func(t *testing.T) {
			plan := New(Input{Pod: podFile(t, name), Facts: v1Facts(), Settings: nodeconfig.Default()})
			got := map[string]int64{}
			r := plan.Pods[0].Resources
			got["cpu.shares"] = int64(r.CPUShares)
			got["cpu.cfs_quota_us"] = orElse(r.CPUQuota, -1)
			got["cpu.cfs_period_us"] = orElse(int64(r.CPUPeriod), 100000)
			got["memory.limit_in_bytes"] = orElse(r.Memory, unlimited)
			got["pids.max"] = orElse(r.PidsLimit, -1)
			for key, g := range got {
				if w := number(t, want[key]); w != g {
					t.Errorf("%s = %d, the kubelet's is %d", key, g, w)
				}
			}
		})
	}
	if compared < 30 {
		t.Errorf("only %d recordings compared", compared)
	}
}

func recorded(t *testing.T, file string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rec struct{ Cgroup map[string]string }
	if err := json.Unmarshal(data, &rec); err != nil {
		t.Fatal(err)
	}
	return rec.Cgroup
}

func podFile(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(recordings, "pods", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := yaml.Unmarshal(data, pod); err != nil {
		t.Fatal(err)
	}
	k8scorev1.SetObjectDefaults_Pod(pod)
	pod.UID = "d9607e19-f88f-11e6-a518-42010a800195"
	return pod
}

// v1Facts returns a host like the one on which the recordings were made.
func v1Facts() host.Facts {
	return host.Facts{
		Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("24Gi")},
		Cgroup: host.Cgroup{
			Version: 1, Driver: host.DriverCgroupfs, Controllers: []string{"cpu", "cpuset", "memory", "pids"},
			MountPoints: map[string]string{"cpu": "/sys/fs/cgroup/cpu", "memory": "/sys/fs/cgroup/memory"},
		},
	}
}

func number(t *testing.T, s string) int64 {
	t.Helper()
	if s == "max" {
		return -1
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func orElse(n, otherwise int64) int64 {
	if n == 0 {
		return otherwise
	}
	return n
}

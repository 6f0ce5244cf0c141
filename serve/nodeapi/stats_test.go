package nodeapi

import (
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podrun/podrun/internal/identity"
)

func testStats() StatsInput {
	sandbox := func(id, name string, state runtimeapi.PodSandboxState) *runtimeapi.PodSandbox {
		return &runtimeapi.PodSandbox{Id: id, State: state, CreatedAt: 5e9, Metadata: &runtimeapi.PodSandboxMetadata{Namespace: "default", Name: name, Uid: "u-" + name}}
	}
	u := func(n uint64) *runtimeapi.UInt64Value { return &runtimeapi.UInt64Value{Value: n} }
	stats := func(id, pod, name string, cpu uint64) *runtimeapi.ContainerStats {
		return &runtimeapi.ContainerStats{Attributes: &runtimeapi.ContainerAttributes{Id: id, Labels: map[string]string{identity.LabelPodUID: "u-" + pod, identity.LabelContainerName: name}},
			Cpu: &runtimeapi.CpuUsage{UsageCoreNanoSeconds: u(cpu)}, Memory: &runtimeapi.MemoryUsage{WorkingSetBytes: u(100)}, WritableLayer: &runtimeapi.FilesystemUsage{UsedBytes: u(7)}}
	}
	ready, gone := runtimeapi.PodSandboxState_SANDBOX_READY, runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	return StatsInput{
		Now: time.Unix(10, 0), NodeName: "node-a",
		Sandboxes:  []*runtimeapi.PodSandbox{sandbox("s1", "web", ready), sandbox("s2", "db", ready), sandbox("s3", "sum", ready), sandbox("s4", "gone", gone), sandbox("s5", "foreign", ready)},
		Containers: []*runtimeapi.Container{{Id: "c0", CreatedAt: 6e9, State: runtimeapi.ContainerState_CONTAINER_RUNNING, Labels: map[string]string{identity.LabelPodUID: "u-db", identity.LabelContainerName: "bare"}}, {Id: "c1", CreatedAt: 6e9}, {Id: "c2", CreatedAt: 7e9}, {Id: "c4", CreatedAt: 7e9, State: runtimeapi.ContainerState_CONTAINER_EXITED}, {Id: "c3", CreatedAt: 7e9}},
		PodStats: []*runtimeapi.PodSandboxStats{{Attributes: &runtimeapi.PodSandboxAttributes{Id: "s1"}, Linux: &runtimeapi.LinuxPodSandboxStats{
			Cpu: &runtimeapi.CpuUsage{UsageCoreNanoSeconds: u(3e9)}, Memory: &runtimeapi.MemoryUsage{WorkingSetBytes: u(4096)},
			Network: &runtimeapi.NetworkUsage{DefaultInterface: &runtimeapi.NetworkInterfaceUsage{Name: "eth0", RxBytes: u(9)}}}}},
		Stats:  []*runtimeapi.ContainerStats{stats("c1", "web", "b", 1e9), stats("c2", "sum", "x", 1e9), stats("c3", "sum", "y", 2e9), stats("c9", "web", "removed", 1), stats("c4", "sum", "ended", 5e9)},
		Groups: map[string]Usage{"u-db": {CPUNanoSeconds: ptr.To[uint64](8e9), MemoryBytes: ptr.To[uint64](50), WorkingSetBytes: ptr.To[uint64](40)}},
		Owned:  func(s *runtimeapi.PodSandbox) bool { return s.Id != "s5" },
	}
}

func TestSummarize(t *testing.T) {
	s := Summarize(testStats())
	if len(s.Pods) != 3 || s.Pods[0].PodRef.Name != "db" || s.Pods[1].PodRef.Name != "sum" || s.Pods[2].PodRef.Name != "web" {
		t.Fatalf("pods %+v", s.Pods)
	}
	db, sum, web := s.Pods[0], s.Pods[1], s.Pods[2]
	if *db.CPU.UsageCoreNanoSeconds != 8e9 || *db.Memory.WorkingSetBytes != 40 || len(db.Containers) != 1 || db.Containers[0].Name != "bare" || db.Containers[0].CPU != nil {
		t.Errorf("according to its cgroup: %+v", db)
	}
	if *sum.CPU.UsageCoreNanoSeconds != 3e9 || *sum.Memory.WorkingSetBytes != 200 || *sum.EphemeralStorage.UsedBytes != 14 {
		t.Errorf("according to its containers: %+v", sum)
	}
	if *web.CPU.UsageCoreNanoSeconds != 3e9 || *web.Network.RxBytes != 9 || len(web.Containers) != 1 || web.Containers[0].StartTime.Unix() != 6 {
		t.Errorf("according to the runtime: %+v", web)
	}
}

func TestNodeStats(t *testing.T) {
	stat := "cpu  100 0 50 900 20 5 5 0 0 0\ncpu0 1 1 1 1 1 1 1 1\nintr 1 2\nbtime 1700000000\n"
	n := nodeStats([]byte(stat), []byte("MemTotal: 1000 kB\nMemFree: 200 kB\nInactive(file): 300 kB\nSwapTotal: 10 kB\nSwapFree: 4 kB\n"), time.Unix(1, 0))
	if *n.CPU.UsageCoreNanoSeconds != 160*1e7 || n.StartTime.Unix() != 1700000000 || *n.Memory.WorkingSetBytes != 500<<10 || *n.Swap.SwapUsageBytes != 6<<10 {
		t.Errorf("%+v %+v %+v", n.CPU, n.Memory, n.Swap)
	}
	for _, text := range []string{"", "cpu", "cpu x y z\nbtime", "cpu 1 2 3 4 5 6 7 x"} {
		nodeStats([]byte(text), []byte(text), time.Unix(1, 0))
	}
	if real, err := ReadNode(t.Context(), t.TempDir(), time.Now()); err != nil || real.CPU == nil || real.Memory == nil || real.Fs == nil {
		t.Errorf("of this machine: %+v %v", real, err)
	}
}

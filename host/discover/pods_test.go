package discover

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/identity"
)

const yamlCheckpoint = `apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default, uid: u1}
spec:
  priority: 7
  containers:
  - name: a
    ports: [{containerPort: 80, hostPort: 8080, protocol: TCP}]
    resources: {requests: {cpu: 100m}}
---
kind: ConfigMap
`

const jsonCheckpoint = `# podrun pod ci/job
{"metadata":{"name":"job","namespace":"ci","uid":"u2"},"spec":{"hostNetwork":true,"containers":[{"name":"a","resources":{"limits":{"cpu":"1","memory":"1Mi"},"requests":{"cpu":"1","memory":"1Mi"}}}]}}
---
{}
`

func sandbox(ns, name, uid string, managed bool, state runtimeapi.PodSandboxState, at int64) *runtimeapi.PodSandbox {
	s := &runtimeapi.PodSandbox{
		Metadata: &runtimeapi.PodSandboxMetadata{Namespace: ns, Name: name, Uid: uid}, State: state, CreatedAt: at,
	}
	if managed {
		s.Annotations = map[string]string{identity.AnnotationManagedBy: identity.ManagedBy}
	}
	return s
}

func writeCheckpoint(t *testing.T, layout identity.Layout, uid, text string) {
	t.Helper()
	if err := os.MkdirAll(string(layout.Pod(uid)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(layout.Pod(uid).Checkpoint(), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestPods(t *testing.T) {
	layout := identity.Layout{RootDir: t.TempDir()}
	for uid, text := range map[string]string{"u1": yamlCheckpoint, "u2": jsonCheckpoint} {
		writeCheckpoint(t, layout, uid, text)
	}
	// A directory without a checkpoint must not count as a pod.
	if err := os.MkdirAll(filepath.Join(layout.PodsDir(), "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	ready, notReady := runtimeapi.PodSandboxState_SANDBOX_READY, runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	stored, err := podState{machine: machine{ctx: t.Context()}, layout: layout}.readStored()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(host.PodDirs{Count: 3, Unnamed: []string{"empty"}}, stored.dirs); diff != "" {
		t.Errorf("directories: -want +got:\n%s", diff)
	}
	got := podState{machine: machine{ctx: t.Context()}, layout: layout}.readPods([]*runtimeapi.PodSandbox{
		sandbox("default", "web", "u1", true, notReady, 1),
		sandbox("default", "web", "u1", true, ready, 5),
		sandbox("kube-system", "theirs", "u3", false, ready, 2),
		sandbox("x", "evil", "../../etc", true, ready, 3),
	}, nil, stored.byUID)
	type brief struct {
		Ref                                   string
		Managed, Ready, Reserved, HostNetwork bool
		Priority                              int32
		QOS                                   corev1.PodQOSClass
		CPU                                   int64
		Ports                                 []host.HostPort
		CreatedAt                             int64
	}
	var briefs []brief
	for _, p := range got {
		for i := range p.HostPorts {
			p.HostPorts[i].Field = ""
		}
		briefs = append(briefs, brief{p.Namespace + "/" + p.Name + "/" + p.UID, p.Managed, p.Ready, p.Reserved, p.HostNetwork,
			p.Priority, p.QOSClass, p.Requests.Cpu().MilliValue(), p.HostPorts, p.CreatedAt})
	}
	want := []brief{
		{Ref: "ci/job/u2", Managed: true, Reserved: true, HostNetwork: true, QOS: "Guaranteed", CPU: 1000},
		{Ref: "default/web/u1", Managed: true, Ready: true, Priority: 7, QOS: "Burstable", CPU: 100, CreatedAt: 5,
			Ports: []host.HostPort{{Protocol: "TCP", Port: 8080}}},
		{Ref: "kube-system/theirs/u3", Ready: true, CreatedAt: 2},
		{Ref: "x/evil/../../etc", Managed: true, Ready: true, CreatedAt: 3},
	}
	if diff := cmp.Diff(want, briefs); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestBrokenCheckpoint(t *testing.T) {
	for _, text := range []string{"", "{", "kind: [", "kind: ConfigMap\n"} {
		var pod corev1.Pod
		if err := decodeCheckpoint([]byte(text), &pod); err == nil {
			t.Errorf("%q is parsed as a pod", text)
		}
	}
}

func BenchmarkCheckpoint(b *testing.B) {
	for name, text := range map[string]string{"yaml": yamlCheckpoint, "json": jsonCheckpoint} {
		b.Run(name, func(b *testing.B) {
			var pod corev1.Pod
			for b.Loop() {
				if err := decodeCheckpoint([]byte(text), &pod); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestSandboxImage(t *testing.T) {
	for config, want := range map[string]string{
		`{"sandboxImage":"registry.k8s.io/pause:3.6"}`:                  "registry.k8s.io/pause:3.6",
		`{"pinnedImages":{"sandbox":"registry.k8s.io/pause:3.10"}}`:     "registry.k8s.io/pause:3.10",
		"[crio]\n  [crio.image]\n    pause_image = \"quay.io/pause:1\"": "quay.io/pause:1",
		`{}`: "", "": "",
	} {
		if got := sandboxImage(config); got != want {
			t.Errorf("%s: %q, want %q", config, got, want)
		}
	}
}

// containerd 1.x has no RuntimeConfig, but the options of its default handler contain the
// driver. (The texts are shortened responses of 1.6 and 1.7.)
func TestReportedDriver(t *testing.T) {
	config := func(kind, options string) string {
		return `{"containerd":{"snapshotter":"overlayfs","defaultRuntimeName":"runc","runtimes":{` +
			`"other":{"runtimeType":"io.containerd.runc.v2","options":{"SystemdCgroup":true}},` +
			`"runc":{"runtimeType":"` + kind + `","options":` + options + `}}},"sandboxImage":"pause"}`
	}
	const runc = "io.containerd.runc.v2"
	systemd := &runtimeapi.RuntimeConfigResponse{Linux: &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: runtimeapi.CgroupDriver_SYSTEMD}}
	for name, tc := range map[string]struct {
		answer       *runtimeapi.RuntimeConfigResponse
		config, want string
	}{
		"systemd":            {nil, config(runc, `{"BinaryName":"","SystemdCgroup":true}`), "systemd"},
		"cgroupfs":           {nil, config(runc, `{"BinaryName":"","SystemdCgroup":false}`), "cgroupfs"},
		"no options":         {nil, config(runc, `null`), "cgroupfs"},
		"a virtual machine":  {nil, config("io.containerd.kata.v2", `null`), ""},
		"no such handler":    {nil, `{"containerd":{"defaultRuntimeName":"runc"}}`, ""},
		"no status":          {nil, "", ""},
		"CRI-O":              {nil, "[crio]\n", ""},
		"RuntimeConfig wins": {systemd, config(runc, `{"SystemdCgroup":false}`), "systemd"},
		"says nothing":       {&runtimeapi.RuntimeConfigResponse{}, config(runc, `{"SystemdCgroup":true}`), "systemd"},
	} {
		if got := reportedDriver(tc.answer, tc.config); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestDescribeRuntime(t *testing.T) {
	got := describe(
		&runtimeapi.VersionResponse{RuntimeName: "containerd", RuntimeVersion: "v2", RuntimeApiVersion: "v1"},
		&runtimeapi.StatusResponse{
			Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{{Type: "NetworkReady", Reason: "why", Message: "cni"}}},
			RuntimeHandlers: []*runtimeapi.RuntimeHandler{
				{Name: "", Features: &runtimeapi.RuntimeHandlerFeatures{UserNamespaces: true}}, {Name: "kata"},
			},
			Features: &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true},
		},
		&runtimeapi.RuntimeConfigResponse{Linux: &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: runtimeapi.CgroupDriver_CGROUPFS}},
	)
	want := host.Runtime{
		Name: "containerd", Version: "v2", APIVersion: "v1", HandlersOK: true, ReportedDriver: "cgroupfs",
		Conditions: []host.RuntimeCondition{{Type: "NetworkReady", Reason: "why", Message: "cni"}},
		Handlers:   map[string]host.RuntimeHandler{"": {UserNamespaces: true}, "kata": {}},
		Features:   map[string]bool{"supplementalGroupsPolicy": true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestPodsOfAnotherRootDir checks that podrun does not manage these pods, and reads their
// requests from their own root directory.
func TestPodsOfAnotherRootDir(t *testing.T) {
	ours, theirs := identity.Layout{RootDir: t.TempDir()}, identity.Layout{RootDir: t.TempDir()}
	if err := os.MkdirAll(string(theirs.Pod("u1")), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(theirs.Pod("u1").Checkpoint(), []byte(yamlCheckpoint), 0o600); err != nil {
		t.Fatal(err)
	}
	var boxes []*runtimeapi.PodSandbox
	for uid, dir := range map[string]string{"u1": theirs.RootDir, "u2": theirs.RootDir, "u3": ours.RootDir, "u4": ""} {
		s := sandbox("default", uid, uid, true, runtimeapi.PodSandboxState_SANDBOX_READY, 1)
		if dir != "" {
			s.Annotations[identity.AnnotationRootDir] = dir
		}
		boxes = append(boxes, s)
	}
	pods := podState{machine: machine{ctx: t.Context()}, layout: ours}.readPods(boxes, nil, nil)
	for _, p := range pods {
		other := p.UID == "u1" || p.UID == "u2"
		if p.Managed == other || (p.RootDir == theirs.RootDir) != other {
			t.Errorf("%+v", p)
		}
		if (len(p.HostPorts) == 1 && p.Priority == 7) != (p.UID == "u1") {
			t.Errorf("the pod's requests: %+v", p)
		}
	}
}

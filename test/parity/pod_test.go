package parity

import (
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	v1defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/podrun/podrun/container"
	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/dns"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/identity"
	podresource "github.com/podrun/podrun/internal/resource"
	"github.com/podrun/podrun/sandbox"
)

// Words of the recordings that have values in this test.
const (
	uid    = "8b1c7c7e-0000-4000-8000-00000000aaaa"
	podIP  = "127.88.0.1"
	hostIP = "192.0.2.10"
	node   = "recorder"
	random = "0badcafe"
	root   = "/root-dir"
	logs   = "/pod-logs"
)

// facts returns the facts of the recording host, according to the recordings' README. Its memory is
// derived from the oom_score_adj of the Burstable containers.
func facts() host.Facts {
	return host.Facts{
		NodeName: node,
		NodeIPs:  []string{hostIP},
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("2"),
			corev1.ResourceMemory: resource.MustParse("24684092Ki"),
		},
		ResolvConf: host.ResolvConf{
			Path: "/etc/resolv.conf", Nameservers: []string{"192.0.2.53"},
			Searches: []string{"host.example"}, Options: []string{"ndots:2"},
		},
		EtcHosts:      "127.0.0.1 localhost\n127.0.0.1 runsc\n127.0.0.1 vm\n",
		Cgroup:        host.Cgroup{Version: 1, Driver: host.DriverCgroupfs},
		HugePageSizes: []int64{2 << 20, 1 << 30},
	}
}

func settings() nodeconfig.Settings {
	s := nodeconfig.Default()
	s.RootDir, s.PodLogsDir = root, logs
	s.ClusterDNS, s.ClusterDomain = []string{"10.96.0.10"}, "cluster.local"
	s.CPUCFSQuotaPeriod = 100 * time.Millisecond
	return s
}

// readPod decodes the pod in a manifest and sets its defaults, as a kubelet does with a file.
// If the file is a stream, it uses the first Pod.
func readPod(t *testing.T, file string) *corev1.Pod {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range strings.Split("\n"+string(raw), "\n---") {
		var pod corev1.Pod
		if err := yaml.Unmarshal([]byte(doc), &pod); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if pod.Kind != "Pod" {
			continue
		}
		if pod.Namespace == "" {
			pod.Namespace = corev1.NamespaceDefault
		}
		pod.UID, pod.Spec.NodeName = uid, node
		v1defaults.SetObjectDefaults_Pod(&pod)
		return &pod
	}
	t.Fatalf("%s: no Pod", file)
	return nil
}

// planned is podrun's plan for a pod.
type planned struct {
	pod     *corev1.Pod
	id      identity.Pod
	sandbox sandbox.Plan
	name    dns.Name
}

func planPod(t *testing.T, pod *corev1.Pod) planned {
	t.Helper()
	s, f := settings(), facts()
	p := planned{pod: pod, id: identity.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: uid}}
	resolver, _ := dns.New(pod, f.ResolvConf, s.ClusterDNS, s.ClusterDomain)
	var err error
	if p.name, err = dns.Hostname(pod, s.ClusterDomain, true); err != nil {
		t.Fatal(err)
	}
	in := sandbox.Input{
		Pod: pod, ID: p.id, Invocation: "invocation",
		DNS:      &runtimeapi.DNSConfig{Servers: resolver.Servers, Searches: resolver.Searches, Options: resolver.Options},
		Hostname: p.name.Kernel, CgroupParent: cgroupParent(pod),
		Layout: s.Layout(), Settings: s, Cgroup: f.Cgroup,
	}
	if pod.Spec.HostUsers != nil && !*pod.Spec.HostUsers {
		ids := []*runtimeapi.IDMapping{{HostId: 65536, Length: 65536}}
		in.UserNS = &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: ids, Gids: ids}
	}
	plan, problems := sandbox.New(in)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	p.sandbox = plan
	return p
}

func cgroupParent(pod *corev1.Pod) string {
	parent := "/kubepods/"
	if class := podresource.QOSClass(pod); class != corev1.PodQOSGuaranteed {
		parent += strings.ToLower(string(class)) + "/"
	}
	return parent + "pod" + uid
}

// container returns the configuration of one attempt of a container. Data that is not known before
// this attempt has the values of the recording's runtime and kubelet.
func (p planned) container(t *testing.T, name string, attempt int) *runtimeapi.ContainerConfig {
	t.Helper()
	s := settings()
	plan, problems := container.New(container.Input{
		Pod: p.pod, Name: name, ID: p.id, Layout: s.Layout(), Settings: s, Facts: facts(),
		Namespaces: p.sandbox.Namespaces(), SwapLimits: true,
	})
	if len(problems) > 0 {
		t.Fatalf("container %s: %s", name, problems)
	}
	late := container.Late{
		PodIPs: []string{podIP}, ImageID: "<IMAGE:" + tagged(plan.Image) + ">", Attempt: uint32(attempt),
		TerminationLogPath: s.Layout().Pod(uid).Container(name) + "/" + random,
		EtcHostsPath:       s.Layout().Pod(uid).EtcHosts(),
		Mounts:             p.mounts(),
		SubpathPaths:       map[int]string{},
	}
	if p.pod.Spec.HostNetwork {
		late.PodIPs = nil
	}
	late.ImageUID, late.ImageUsername = cri.ImageUser(imageOf(plan.Image))
	subpaths, err := plan.Subpaths(late)
	if err != nil {
		t.Fatal(err)
	}
	for i := range subpaths {
		c := find(p.pod, name)
		late.SubpathPaths[i] = s.Layout().Pod(uid).Subpath(c.VolumeMounts[i].Name, name, i)
	}
	config, err := plan.Config(late)
	if err != nil {
		t.Fatalf("container %s: %v", name, err)
	}
	return config
}

func find(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// mounts returns the mounts for the pod's volumes.
func (p planned) mounts() map[string]container.MountSource {
	out := map[string]container.MountSource{}
	layout := settings().Layout()
	for _, v := range p.pod.Spec.Volumes {
		switch {
		case v.HostPath != nil:
			out[v.Name] = container.MountSource{HostPath: v.HostPath.Path}
		case v.EmptyDir != nil:
			out[v.Name] = container.MountSource{HostPath: layout.Pod(uid).Volume("kubernetes.io~empty-dir", v.Name)}
		case v.DownwardAPI != nil:
			out[v.Name] = container.MountSource{HostPath: layout.Pod(uid).Volume("kubernetes.io~downward-api", v.Name), ReadOnly: true}
		case v.Image != nil:
			out[v.Name] = container.MountSource{ReadOnly: true, Image: &runtimeapi.ImageSpec{
				Image: "<IMAGE:" + tagged(v.Image.Reference) + ">", UserSpecifiedImage: v.Image.Reference,
				Annotations: p.pod.Annotations,
			}}
		}
	}
	return out
}

// tagged returns the name under which the runtime pulls an image.
func tagged(image string) string {
	last := image[strings.LastIndex(image, "/")+1:]
	if strings.ContainsAny(last, ":@") {
		return image
	}
	return image + ":latest"
}

// imageOf returns an image with the properties that the recording's runtime reports: the image's
// user is part of its name.
func imageOf(image string) *runtimeapi.Image {
	switch {
	case strings.Contains(image, "nonroot"):
		return &runtimeapi.Image{Uid: &runtimeapi.Int64Value{Value: 65532}}
	case strings.Contains(image, "username"):
		return &runtimeapi.Image{Username: "app"}
	}
	return &runtimeapi.Image{Uid: &runtimeapi.Int64Value{}}
}

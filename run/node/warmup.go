package node

import (
	"runtime"
	"sync"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/manifest"
)

// initEncoders makes encoding/json and protobuf inspect the types that podrun encodes and decodes
// when a pod starts. Otherwise the packages would do so at first use, which takes 1 to 2 ms.
// initEncoders does it while podrun waits for the runtime's responses.
var initEncoders = sync.OnceFunc(func() {
	runtime.Gosched() // gives the calls to the runtime priority
	manifest.StaticUID(&corev1.Pod{}, "", "")
	runtime.Gosched()
	sandbox := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{}, DnsConfig: &runtimeapi.DNSConfig{}, PortMappings: []*runtimeapi.PortMapping{{}},
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{},
				Seccomp:          &runtimeapi.SecurityProfile{},
			},
			Overhead: &runtimeapi.LinuxContainerResources{}, Resources: &runtimeapi.LinuxContainerResources{},
		},
	}
	container := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{}, Image: &runtimeapi.ImageSpec{}, Envs: []*runtimeapi.KeyValue{{}}, Mounts: []*runtimeapi.Mount{{}},
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources: &runtimeapi.LinuxContainerResources{},
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{}, Seccomp: &runtimeapi.SecurityProfile{}, Capabilities: &runtimeapi.Capability{},
			},
		},
	}
	sandbox = proto.CloneOf(sandbox)
	for _, m := range []proto.Message{
		&runtimeapi.RunPodSandboxRequest{Config: sandbox}, &runtimeapi.RunPodSandboxResponse{},
		&runtimeapi.PodSandboxStatusRequest{}, &runtimeapi.PodSandboxStatusResponse{Status: &runtimeapi.PodSandboxStatus{
			Metadata: &runtimeapi.PodSandboxMetadata{}, Network: &runtimeapi.PodSandboxNetworkStatus{},
			Linux: &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: &runtimeapi.NamespaceOption{}}},
		}},
		&runtimeapi.CreateContainerRequest{Config: container, SandboxConfig: sandbox}, &runtimeapi.CreateContainerResponse{},
		&runtimeapi.StartContainerRequest{}, &runtimeapi.StartContainerResponse{},
	} {
		proto.Size(m)
	}
})

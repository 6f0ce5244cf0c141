package cri_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	ordered "go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/yaml"

	"github.com/podrun/podrun/cri"
)

var update = flag.Bool("update", false, "write the golden files")

var printed = map[string]proto.Message{
	"sandbox": &runtimeapi.RunPodSandboxRequest{
		RuntimeHandler: "runc",
		Config: &runtimeapi.PodSandboxConfig{
			Metadata:     &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "u-1"},
			Hostname:     "web",
			LogDirectory: "/var/log/pods/default_web_u-1",
			DnsConfig:    &runtimeapi.DNSConfig{Servers: []string{"10.96.0.10"}, Options: []string{"ndots:5"}},
			PortMappings: []*runtimeapi.PortMapping{{ContainerPort: 80, HostPort: 8080}, {Protocol: runtimeapi.Protocol_UDP, ContainerPort: 53}},
			Labels:       map[string]string{"z": "1", "a": "yes", "m": "line one\nline two\n"},
			Annotations:  map[string]string{"html": "<a&b>"},
			Linux: &runtimeapi.LinuxPodSandboxConfig{
				CgroupParent: "/kubepods/podu-1",
				Overhead:     &runtimeapi.LinuxContainerResources{},
				SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
					NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
					RunAsUser:        &runtimeapi.Int64Value{},
					Seccomp:          &runtimeapi.SecurityProfile{},
				},
			},
		},
	},
	"container": &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app", Attempt: 2},
		Image:    &runtimeapi.ImageSpec{Image: "sha256:1234", UserSpecifiedImage: "busybox:1.36"},
		Command:  []string{"sh", "-c"},
		Args:     []string{"echo \"hi\"; sleep 1"},
		Envs: []*runtimeapi.KeyValue{
			{Key: "TEXT", Value: []byte("größer: 5")}, {Key: "EMPTY"}, {Key: "NUMBER", Value: []byte("007")}, {Key: "BROKEN", Value: []byte("a\xffb")},
		},
		Mounts: []*runtimeapi.Mount{
			{ContainerPath: "/data", HostPath: "/srv"},
			{ContainerPath: "/ro", HostPath: "/srv", Readonly: true, Propagation: runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL},
		},
		LogPath: "app/2.log",
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources: &runtimeapi.LinuxContainerResources{CpuShares: 2, OomScoreAdj: -997, MemoryLimitInBytes: 1 << 40},
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
				Capabilities:     &runtimeapi.Capability{DropCapabilities: []string{"ALL"}},
				NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE},
				RunAsUser:        &runtimeapi.Int64Value{Value: 1000},
				Seccomp:          &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: "/p.json"},
			},
		},
		StopSignal: runtimeapi.Signal_SIGQUIT,
	},
	"pull": &runtimeapi.PullImageRequest{
		Image: &runtimeapi.ImageSpec{Image: "busybox"},
		Auth:  &runtimeapi.AuthConfig{Username: "ada", Password: "hunter2", RegistryToken: "t0ken"},
	},
	"created": &runtimeapi.ContainerStatus{Id: "1"},
}

// asYAML converts a message to YAML, like `podrun plan`.
func asYAML(m proto.Message) ([]byte, error) {
	var b bytes.Buffer
	enc := ordered.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(cri.Value(m)); err != nil {
		return nil, err
	}
	return b.Bytes(), enc.Close()
}

// asJSON converts a message to JSON, like `podrun plan`.
func asJSON(m proto.Message) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(cri.Value(m))
	return b.Bytes(), err
}

func TestPrintGolden(t *testing.T) {
	for name, m := range printed {
		for ext, render := range map[string]func(proto.Message) ([]byte, error){"yaml": asYAML, "json": asJSON} {
			got, err := render(m)
			if err != nil {
				t.Fatalf("%s as %s: %v", name, ext, err)
			}
			file := "testdata/print/" + name + "." + ext
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != string(want) {
				t.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
			}
			if strings.Contains(string(got), "hunter2") || strings.Contains(string(got), "t0ken") {
				t.Errorf("%s shows a credential:\n%s", file, got)
			}
		}
	}
}

// TestPrintAgrees checks that both formats have the same content, also for a Value inside another
// value.
func TestPrintAgrees(t *testing.T) {
	for name, m := range printed {
		text, err := asYAML(m)
		if err != nil {
			t.Fatal(err)
		}
		fromYAML, err := yaml.YAMLToJSON(text)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		inside, err := json.Marshal(map[string]any{"in": cri.Value(m)})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := compact(t, inside), compact(t, []byte(`{"in":`+string(fromYAML)+`}`)); got != want {
			t.Errorf("%s: JSON says\n%s\nYAML says\n%s", name, got, want)
		}
	}
}

// compact returns a JSON text with sorted keys and without white space.
func compact(t *testing.T, data []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestPrintNil(t *testing.T) {
	var none *runtimeapi.PodSandboxConfig
	if v := cri.Value(none); v != nil {
		t.Errorf("a nil message is %v, want nil", v)
	}
	if v := cri.Value(nil); v != nil {
		t.Errorf("no message is %v, want nil", v)
	}
}

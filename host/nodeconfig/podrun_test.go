package nodeconfig

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podrun/podrun/internal/problem"
)

const beginPodrun = "apiVersion: podrun.dev/v1alpha1\nkind: PodrunConfiguration\n"

func TestParsePodrun(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		want func(*Settings)
	}{
		"nothing set": {beginPodrun, func(s *Settings) {}},
		"nulls":       {beginPodrun + "rootDir: null\nsources:\n", func(s *Settings) {}},
		"all fields": {beginPodrun + `rootDir: /data/podrun
containerLogsDir: /data/logs
sources: [/etc/podrun/manifests, /run/manifests]
hostnameOverride: edge-1
nodeIP: [192.0.2.1, '2001:db8::1']
nodeLabels: {disk: ssd}
persistentVolumeClaims: {data: /srv/data}
devices:
  example.com/gpu: [example.com/gpu=0, example.com/gpu=1]
registryAuth: /etc/podrun/auth.json
imageCredentialProviderConfig: /etc/podrun/providers.yaml
imageCredentialProviderBinDir: /usr/libexec/providers
retryPull: always
pullTimeout: 5m
pullStallTimeout: 0s
allowPrivileged: false
podSecurity: baseline
preempt: false
allowKubelet: true
strictSources: true
imagePolicy: verified
imageVerifierDir: /etc/verifiers
replicas: honour
progressDeadline: 2m
namespace: edge
verbose: true
`, func(s *Settings) {
			s.RootDir, s.ContainerLogsDir = "/data/podrun", "/data/logs"
			s.Sources = []string{"/etc/podrun/manifests", "/run/manifests"}
			s.HostnameOverride, s.NodeIP, s.NodeLabels = "edge-1", []string{"192.0.2.1", "2001:db8::1"}, map[string]string{"disk": "ssd"}
			s.Claims = map[string]string{"data": "/srv/data"}
			s.Devices = map[string][]string{"example.com/gpu": {"example.com/gpu=0", "example.com/gpu=1"}}
			s.RegistryAuth, s.ProviderConfig, s.ProviderBinDir = "/etc/podrun/auth.json", "/etc/podrun/providers.yaml", "/usr/libexec/providers"
			limit := 5 * time.Minute
			s.RetryPullAlways, s.PullTimeout, s.PullStall = true, &limit, 0
			s.AllowPrivileged, s.PodSecurity, s.Preempt, s.AllowKubelet = false, "baseline", false, true
			s.StrictSources, s.Replicas = true, ReplicasHonour
			s.ImagePolicy, s.ImageVerifierDir = ImagePolicyVerified, "/etc/verifiers"
			s.ProgressDeadline = 2 * time.Minute
			s.Namespace, s.Verbose = "edge", true
		}},
		"beside a KubeletConfiguration": {"# the node\n---\n" + begin + "maxPods: 7\n--- # podrun's own\n" + beginPodrun + "rootDir: /r\n...\n", func(s *Settings) {
			s.MaxPods, s.RootDir = 7, "/r"
		}},
		"before a KubeletConfiguration": {beginPodrun + "rootDir: /r\n---\n" + begin + "maxPods: 7\n---\n", func(s *Settings) {
			s.MaxPods, s.RootDir = 7, "/r"
		}},
		"JSON":    {`{"kind":"PodrunConfiguration","apiVersion":"podrun.dev/v1alpha1","rootDir":"/r"}`, func(s *Settings) { s.RootDir = "/r" }},
		"aliases": {beginPodrun + "rootDir: &dir /r\nsources: [*dir]\n", func(s *Settings) { s.RootDir, s.Sources = "/r", []string{"/r"} }},
	} {
		t.Run(name, func(t *testing.T) {
			wantParsed(t, tc.file, tc.want)
		})
	}
}

// TestParsePodrunProblems checks that a PodrunConfiguration is parsed strictly. Each error must
// have its line in the file, even in the second document.
func TestParsePodrunProblems(t *testing.T) {
	for name, tc := range map[string]struct {
		// the text of the file after apiVersion and kind
		file string
		want string
		line int
	}{
		"unknown field":          {"rootdir: /r\n", "rootdir: unknown field", 3},
		"duplicate field":        {"rootDir: /r\nrootDir: /s\n", "rootDir: already defined at line 3", 4},
		"duplicate key":          {"nodeLabels:\n  a: b\n  a: c\n", "nodeLabels[a]: already defined at line 4", 5},
		"kubelet's field":        {"maxPods: 3\n", "maxPods: unknown field", 3},
		"wrong type":             {"sources: /etc\n", "sources: string is not a valid list", 3},
		"wrong type of mapping":  {"devices: [a]\n", "devices: array is not a valid mapping", 3},
		"long path":              {"rootDir: /" + strings.Repeat("a", 4096) + "\n", "rootDir: longer than 4095 bytes", 3},
		"empty path":             {"rootDir: ''\n", `rootDir: "" is not an absolute path`, 3},
		"relative path":          {"containerLogsDir: logs\n", `containerLogsDir: "logs" is not an absolute path`, 3},
		"relative source":        {"sources:\n- /a\n- b\n", `sources[1]: "b" is not an absolute path`, 5},
		"artifact with a user":   {"sources: [oci://user@host/a:b]\n", "sources[0]: not a URL", 3},
		"source twice":           {"sources: [/a, /a]\n", `sources[1]: "/a" is specified twice`, 3},
		"many sources":           {"sources: [" + strings.Repeat("/a,", 65) + "]\n", "sources: 65 directories, more than the limit of 64", 3},
		"name of the node":       {"hostnameOverride: Edge_1\n", `hostnameOverride: "Edge_1" is not a valid name of a node`, 3},
		"address":                {"nodeIP: [localhost]\n", `nodeIP[0]: "localhost" is not an IP address`, 3},
		"two addresses":          {"nodeIP: [192.0.2.1, 192.0.2.2]\n", "nodeIP[1]: 192.0.2.2 is the second address of its family", 3},
		"label key":              {"nodeLabels:\n  a b: c\n", "nodeLabels[a b]: not a valid label key", 4},
		"label value":            {"nodeLabels:\n  a: b c\n", "nodeLabels[a]: not a valid label value", 4},
		"claim":                  {"persistentVolumeClaims:\n  A: /srv\n", "persistentVolumeClaims[A]: not a valid name of a claim", 4},
		"claim's directory":      {"persistentVolumeClaims:\n  a.b: srv/../a\n", `persistentVolumeClaims[a.b]: "srv/../a" is not an absolute path`, 4},
		"device":                 {"devices:\n  gpu: [a]\n", `devices[gpu][0]: "gpu=a": "gpu" is not the name of an extended resource`, 4},
		"device twice":           {"devices: {e.x/a: [e.x/g=0], e.x/b: [e.x/g=0]}\n", `devices[e.x/b][0]: "e.x/g=0" is specified twice`, 3},
		"auth":                   {"registryAuth: auth.json\n", `registryAuth: "auth.json" is not an absolute path`, 3},
		"retry":                  {"retryPull: never\n", `retryPull: "never" is not auto or always`, 3},
		"negative limit":         {"pullTimeout: -1s\n", "pullTimeout: -1s is negative", 3},
		"limit without unit":     {"pullStallTimeout: '3'\n", "pullStallTimeout: time: missing unit in duration", 3},
		"profile":                {"profile: hard\n", `profile: unknown profile "hard"`, 3},
		"user namespaces":        {"userNamespaces: always\n", `userNamespaces: "always" is not pod or prefer`, 3},
		"replicas":               {"replicas: 3\n", `replicas`, 3},
		"image policy":           {"imagePolicy: signed\n", `imagePolicy: "signed" is not any or verified`, 3},
		"image verifiers":        {"imageVerifierDir: verifiers\n", `imageVerifierDir: "verifiers" is not an absolute path`, 3},
		"progress deadline":      {"progressDeadline: -2m\n", `progressDeadline: -2m0s is negative`, 3},
		"replicas' mode":         {"replicas: honor\n", `replicas: "honor" is not ignore or honour`, 3},
		"security level":         {"podSecurity: strict\n", `podSecurity: "strict" is not a level`, 3},
		"namespace":              {"namespace: a.b\n", `namespace: "a.b" is not a valid namespace`, 3},
		"twice":                  {"---\n" + beginPodrun, "kind: PodrunConfiguration is already defined at line 2", 5},
		"another kind after it":  {"---\napiVersion: v1\nkind: Pod\n", `kind: "Pod" is not a kind of settings`, 5},
		"not YAML after it":      {"---\na: b: c\n", "not valid YAML", 0},
		"of another version":     {"---\napiVersion: podrun.dev/v1\nkind: PodrunConfiguration\n", "apiVersion: must be podrun.dev/v1alpha1", 4},
		"a document without ---": {"...\n" + "a: b\n", "kind: must be KubeletConfiguration or PodrunConfiguration", 0},
		"many aliases":           {"registryAuth: &a /" + strings.Repeat("x", 10000) + "\nsources: [" + strings.Repeat("*a,", 1000) + "]\n", "not valid YAML: larger than 4 MiB with its aliases", 0},
		"an alias of itself":     {"sources: &a [*a]\n", "not valid YAML: ", 0},
	} {
		for before, doc := range map[string]string{"": "", " after another document": begin + "maxPods: 3\n---\n"} {
			t.Run(name+before, func(t *testing.T) {
				base := Default()
				got, problems := Parse([]byte(doc+beginPodrun+tc.file), base)
				if len(problems) == 0 {
					t.Fatal("no problem")
				}
				p := problems[0]
				text := strings.TrimPrefix(problem.Problem{Object: p.Object, Field: p.Field, Message: p.Message}.String(), "PodrunConfiguration: ")
				shift := strings.Count(doc, "\n")
				want, line := tc.want, tc.line
				if line > 0 {
					line += shift
				}
				// The message may also contain a line number.
				for n := range 8 {
					if shift > 0 && strings.HasSuffix(want, fmt.Sprintf(" line %d", n)) {
						want = strings.Replace(want, fmt.Sprintf(" line %d", n), fmt.Sprintf(" line %d", n+shift), 1)
						break
					}
				}
				if !strings.HasPrefix(text, want) || p.Line != line || p.Warning {
					t.Errorf("line %d, warning %t: %s\nwant line %d: %s", p.Line, p.Warning, text, line, want)
				}
				if diff := cmp.Diff(base, got); diff != "" {
					t.Errorf("a refused file changed the settings: %s", diff)
				}
			})
		}
	}
}

func TestParseProblemsOfBothDocuments(t *testing.T) {
	_, problems := Parse([]byte(begin+"maxPods: -1\n---\n"+beginPodrun+"rootDir: r\n"), Default())
	if len(problems.Errors()) != 2 {
		t.Errorf("want an error for each document, got:\n%s", problems)
	}
}

package nodeconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podrun/podrun/internal/problem"
)

const begin = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// wantParsed parses a file over the defaults and checks the resulting settings.
func wantParsed(t *testing.T, file string, change func(*Settings)) {
	t.Helper()
	got, problems := Parse([]byte(file), Default())
	if len(problems) != 0 {
		t.Fatalf("problems: %s", problems)
	}
	want := Default()
	change(&want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParse(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		want func(*Settings)
	}{
		"nothing said": {"", func(s *Settings) {}},
		"dns": {"clusterDNS: [10.96.0.10, 'fd00::10']\nclusterDomain: cluster.local\nresolvConf: /run/resolv.conf\n", func(s *Settings) {
			s.ClusterDNS, s.ClusterDomain, s.ResolvConf = []string{"10.96.0.10", "fd00::10"}, "cluster.local", "/run/resolv.conf"
		}},
		"an empty resolvConf is none": {"resolvConf: ''\n", func(s *Settings) { s.ResolvConf = "" }},
		"cgroups": {"cgroupDriver: systemd\ncgroupRoot: /edge\ncgroupsPerQOS: false\ncpuCFSQuota: false\ncpuCFSQuotaPeriod: 10ms\npodPidsLimit: 100\n", func(s *Settings) {
			s.CgroupDriver, s.CgroupRoot, s.CgroupsPerQOS, s.CPUCFSQuota = "systemd", "/edge", false, false
			s.CPUCFSQuotaPeriod, s.PodPidsLimit = 10*time.Millisecond, 100
		}},
		"a negative pid limit is none": {"podPidsLimit: -7\n", func(s *Settings) { s.PodPidsLimit = -1 }},
		"zeros that say nothing":       {"maxPods: 0\nregistryBurst: 0\nruntimeRequestTimeout: 0s\n", func(s *Settings) {}},
		"a zero that says something":   {"registryPullQPS: 0\n", func(s *Settings) { s.RegistryPullQPS = 0 }},
		"capacity": {"maxPods: 5\nsystemReserved: {cpu: 500m, memory: 1Gi, pid: '100'}\nkubeReserved: {ephemeral-storage: 1Gi}\n", func(s *Settings) {
			s.MaxPods = 5
			s.SystemReserved = map[string]string{"cpu": "500m", "memory": "1Gi", "pid": "100"}
			s.KubeReserved = map[string]string{"ephemeral-storage": "1Gi"}
		}},
		"evictionHard replaces the defaults": {"evictionHard: {memory.available: 5%}\n", func(s *Settings) {
			s.EvictionHard = map[string]string{"memory.available": "5%"}
		}},
		"evictionHard over the defaults": {"evictionHard: {memory.available: 1Gi}\nmergeDefaultEvictionSettings: true\n", func(s *Settings) {
			s.EvictionHard["memory.available"] = "1Gi"
		}},
		"soft thresholds": {"evictionSoft: {memory.available: 500Mi}\nevictionSoftGracePeriod: {memory.available: 1m30s}\nevictionMinimumReclaim: {nodefs.available: 1Gi}\n" +
			"evictionPressureTransitionPeriod: 1m\nevictionMaxPodGracePeriod: 60\n", func(s *Settings) {
			s.EvictionSoft, s.EvictionSoftGracePeriod = map[string]string{"memory.available": "500Mi"}, map[string]string{"memory.available": "1m30s"}
			s.EvictionMinimumReclaim = map[string]string{"nodefs.available": "1Gi"}
			s.EvictionPressureTransitionPeriod, s.EvictionMaxPodGracePeriod = time.Minute, 60
		}},
		"a soft threshold that is off needs no grace period": {"evictionSoft: {memory.available: 0%}\n", func(s *Settings) {
			s.EvictionSoft = map[string]string{"memory.available": "0%"}
		}},
		"the zero transition period is the default": {"evictionPressureTransitionPeriod: 0s\nimageMinimumGCAge: 0s\n", func(s *Settings) {}},
		"images that are not used": {"imageGCHighThresholdPercent: 70\nimageGCLowThresholdPercent: 0\nimageMinimumGCAge: 1h\nimageMaximumGCAge: 240h\n", func(s *Settings) {
			s.ImageGCHighThresholdPercent, s.ImageGCLowThresholdPercent = 70, 0
			s.ImageMinimumGCAge, s.ImageMaximumGCAge = time.Hour, 240*time.Hour
		}},
		"one image at a time": {"serializeImagePulls: true\n", func(s *Settings) { s.MaxParallelImagePulls = 1 }},
		"four images at once": {"maxParallelImagePulls: 4\nserializeImagePulls: false\n", func(s *Settings) { s.MaxParallelImagePulls = 4 }},
		"who may use images": {"imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages\npreloadedImagesVerificationAllowlist: [r.example/a/*, r.example/b]\n", func(s *Settings) {
			s.PullVerification, s.PullAllowlist = "NeverVerifyAllowlistedImages", []string{"r.example/a/*", "r.example/b"}
		}},
		"images without limit": {"serializeImagePulls: false\n", func(s *Settings) { s.MaxParallelImagePulls = 0 }},
		"runtime": {"containerRuntimeEndpoint: unix:///a\nimageServiceEndpoint: unix:///b\nruntimeRequestTimeout: 5m\nseccompDefault: true\nallowedUnsafeSysctls: ['kernel.msg*', net.core.somaxconn]\nfeatureGates: {NodeSwap: false}\n", func(s *Settings) {
			s.ContainerRuntimeEndpoint, s.ImageServiceEndpoint, s.RuntimeRequestTimeout = "unix:///a", "unix:///b", 5*time.Minute
			s.SeccompDefault, s.AllowedUnsafeSysctls, s.FeatureGates = true, []string{"kernel.msg*", "net.core.somaxconn"}, map[string]bool{"NodeSwap": false}
		}},
		"swap": {"memorySwap: {swapBehavior: LimitedSwap}\n", func(s *Settings) { s.SwapBehavior = "LimitedSwap" }},
		"rotation": {"containerLogMaxWorkers: 3\ncontainerLogMonitorInterval: 5s\n", func(s *Settings) {
			s.ContainerLogMaxWorkers, s.ContainerLogMonitorInterval = 3, 5*time.Second
		}},
		"back-off": {"crashLoopBackOff: {maxContainerRestartPeriod: 30s}\n", func(s *Settings) { s.MaxContainerRestartPeriod = 30 * time.Second }},
		"logs": {"podLogsDir: /logs\ncontainerLogMaxSize: 1Mi\ncontainerLogMaxFiles: 2\n", func(s *Settings) {
			s.PodLogsDir, s.ContainerLogMaxSize, s.ContainerLogMaxFiles = "/logs", "1Mi", 2
		}},
	} {
		t.Run(name, func(t *testing.T) {
			wantParsed(t, begin+tc.file, tc.want)
		})
	}
}

func TestParseJSON(t *testing.T) {
	got, problems := Parse([]byte(`{"apiVersion":"kubelet.config.k8s.io/v1beta1","kind":"KubeletConfiguration","maxPods":7}`), Default())
	if len(problems) != 0 || got.MaxPods != 7 {
		t.Errorf("maxPods %d, problems: %s", got.MaxPods, problems)
	}
}

// TestParseProblems checks the text of each problem that podrun prints for the user. After an
// error, the settings must be unchanged.
func TestParseProblems(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		// the first problem, in the form "field: message"
		want    string
		line    int
		warning bool
	}{
		"not YAML":               {file: "a: b: c\n", want: "not valid YAML"},
		"empty":                  {file: "", want: "the file does not contain a document"},
		"a list":                 {file: "- a\n", want: "not a mapping"},
		"wrong kind":             {file: "apiVersion: v1\nkind: Pod\n", want: `kind: "Pod" is not a kind of settings`, line: 2},
		"another version":        {file: "apiVersion: kubelet.config.k8s.io/v1\nkind: KubeletConfiguration\n", want: "apiVersion: must be kubelet.config.k8s.io/v1beta1", line: 1},
		"no kind":                {file: "apiVersion: kubelet.config.k8s.io/v1beta1\n", want: "kind: must be KubeletConfiguration"},
		"two documents":          {file: begin + "---\n" + begin, want: "kind: KubeletConfiguration is already defined at line 2", line: 5},
		"many documents":         {file: strings.Repeat("---\na: b\n", 20), want: "20 documents, more than the limit of 8"},
		"unknown field":          {file: begin + "clusterDns: [10.0.0.1]\n", want: "clusterDns: unknown field, ignored", line: 3, warning: true},
		"unknown below another":  {file: begin + "authentication: {anonymouse: {}}\n", want: "authentication.anonymouse: unknown", line: 3, warning: true},
		"unused field":           {file: begin + "staticPodPath: /etc/kubernetes/manifests\n", want: "staticPodPath: podrun does not use this field", line: 3, warning: true},
		"duplicate field":        {file: begin + "maxPods: 1\nmaxPods: 2\n", want: "maxPods: already defined at line 3", line: 4, warning: true},
		"wrong type":             {file: begin + "maxPods: many\n", want: "maxPods: string is not a valid int32", line: 3},
		"duration without unit":  {file: begin + "runtimeRequestTimeout: '10'\n", want: "runtimeRequestTimeout: time: missing unit in duration", line: 3},
		"duration as a number":   {file: begin + "runtimeRequestTimeout: 10\n", want: "runtimeRequestTimeout: number is not a valid string", line: 3},
		"negative duration":      {file: begin + "runtimeRequestTimeout: -1s\n", want: "runtimeRequestTimeout: -1s is negative", line: 3},
		"quota period":           {file: begin + "cpuCFSQuotaPeriod: 2s\n", want: "cpuCFSQuotaPeriod: 2s is not between 1ms and 1s", line: 3},
		"cgroup driver":          {file: begin + "cgroupDriver: docker\n", want: "cgroupDriver: \"docker\" is not a driver", line: 3},
		"cgroup root":            {file: begin + "cgroupRoot: edge\n", want: "cgroupRoot: \"edge\" is not an absolute path", line: 3},
		"logs elsewhere":         {file: begin + "podLogsDir: /a/../b\n", want: "podLogsDir: \"/a/../b\" is not a clean path", line: 3},
		"logs not ASCII":         {file: begin + "podLogsDir: /é\n", want: "podLogsDir: \"/é\" has characters", line: 3},
		"no such swap":           {file: begin + "memorySwap: {swapBehavior: UnlimitedSwap}\n", want: "memorySwap.swapBehavior: \"UnlimitedSwap\" is not a swap behavior", line: 3},
		"negative number":        {file: begin + "maxPods: -1\n", want: "maxPods: -1 is negative", line: 3},
		"no pulls":               {file: begin + "maxParallelImagePulls: 0\n", want: "maxParallelImagePulls: 0 is not positive", line: 3},
		"no such policy":         {file: begin + "imagePullCredentialsVerificationPolicy: Sometimes\n", want: `imagePullCredentialsVerificationPolicy: "Sometimes" is not a policy`, line: 3},
		"list without policy":    {file: begin + "preloadedImagesVerificationAllowlist: [a]\n", want: "preloadedImagesVerificationAllowlist: must not be set unless", line: 3},
		"list with a tag":        {file: begin + "imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages\npreloadedImagesVerificationAllowlist: ['a:1']\n", want: `preloadedImagesVerificationAllowlist[0]: "a:1" is neither`, line: 4},
		"list with a glob":       {file: begin + "imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages\npreloadedImagesVerificationAllowlist: ['a/*/b']\n", want: `preloadedImagesVerificationAllowlist[0]: "a/*/b" is neither`, line: 4},
		"policy without gate":    {file: begin + "imagePullCredentialsVerificationPolicy: NeverVerify\nfeatureGates: {KubeletEnsureSecretPulledImages: false}\n", want: "imagePullCredentialsVerificationPolicy: must not be set while", line: 3},
		"serial and parallel":    {file: begin + "maxParallelImagePulls: 2\nserializeImagePulls: true\n", want: "maxParallelImagePulls: must not be 2 while", line: 3},
		"log files":              {file: begin + "containerLogMaxFiles: 1\n", want: "containerLogMaxFiles: 1 is less than 2", line: 3},
		"log size":               {file: begin + "containerLogMaxSize: huge\n", want: "containerLogMaxSize: \"huge\" is not a quantity", line: 3},
		"log workers":            {file: begin + "containerLogMaxWorkers: 0\n", want: "containerLogMaxWorkers: 0 is less than 1", line: 3},
		"log interval":           {file: begin + "containerLogMonitorInterval: 2s\n", want: "containerLogMonitorInterval: 2s is less than 3s", line: 3},
		"back-off too long":      {file: begin + "crashLoopBackOff: {maxContainerRestartPeriod: 6m}\n", want: "crashLoopBackOff.maxContainerRestartPeriod: 6m0s is not between", line: 3},
		"back-off without gate":  {file: begin + "crashLoopBackOff: {maxContainerRestartPeriod: 6s}\nfeatureGates: {KubeletCrashLoopBackOffMax: false}\n", want: "crashLoopBackOff.maxContainerRestartPeriod: it must not be set while", line: 3},
		"reserved resource":      {file: begin + "systemReserved:\n  gpu: '1'\n", want: "systemReserved[gpu]: the resource cannot be reserved", line: 4},
		"reserved quantity":      {file: begin + "kubeReserved:\n  cpu: lots\n", want: "kubeReserved[cpu]: \"lots\" is not a quantity", line: 4},
		"reserved negative":      {file: begin + "kubeReserved: {cpu: '-1'}\n", want: "kubeReserved[cpu]: \"-1\" is negative", line: 3},
		"eviction signal":        {file: begin + "evictionHard: {memory: 5%}\n", want: "evictionHard[memory]: unknown eviction signal", line: 3},
		"eviction percentage":    {file: begin + "evictionHard: {memory.available: 500%}\n", want: "evictionHard[memory.available]: \"500%\" is not a percentage", line: 3},
		"eviction not a number":  {file: begin + "evictionHard: {memory.available: NaN%}\n", want: "evictionHard[memory.available]: \"NaN%\" is not a percentage", line: 3},
		"eviction quantity":      {file: begin + "evictionHard: {memory.available: '0'}\n", want: "evictionHard[memory.available]: \"0\" is neither", line: 3},
		"soft signal":            {file: begin + "evictionSoft: {disk: 5%}\n", want: "evictionSoft[disk]: unknown eviction signal", line: 3},
		"soft without grace":     {file: begin + "evictionSoft: {memory.available: 5%}\n", want: "evictionSoft[memory.available]: a soft threshold needs a grace period", line: 3},
		"soft grace":             {file: begin + "evictionSoftGracePeriod: {memory.available: soon}\n", want: "evictionSoftGracePeriod[memory.available]: \"soon\" is not a duration", line: 3},
		"soft grace signal":      {file: begin + "evictionSoftGracePeriod: {memory: 1s}\n", want: "evictionSoftGracePeriod[memory]: unknown eviction signal", line: 3},
		"minimum reclaim":        {file: begin + "evictionMinimumReclaim: {nodefs.available: 0%}\n", want: "evictionMinimumReclaim[nodefs.available]: \"0%\" is not a percentage above 0%", line: 3},
		"negative reclaim":       {file: begin + "evictionMinimumReclaim: {nodefs.available: -1Gi}\n", want: "evictionMinimumReclaim[nodefs.available]: \"-1Gi\" is neither", line: 3},
		"transition period":      {file: begin + "evictionPressureTransitionPeriod: -1s\n", want: "evictionPressureTransitionPeriod: -1s is negative", line: 3},
		"eviction grace":         {file: begin + "evictionMaxPodGracePeriod: -1\n", want: "evictionMaxPodGracePeriod: -1 is negative", line: 3},
		"image high":             {file: begin + "imageGCHighThresholdPercent: 101\n", want: "imageGCHighThresholdPercent: 101 is not between 0 and 100", line: 3},
		"image low":              {file: begin + "imageGCLowThresholdPercent: 85\n", want: "imageGCLowThresholdPercent: 85 is not less than", line: 3},
		"image minimum age":      {file: begin + "imageMinimumGCAge: -1s\n", want: "imageMinimumGCAge: -1s is negative", line: 3},
		"image maximum age":      {file: begin + "imageMaximumGCAge: 1m\n", want: "imageMaximumGCAge: 1m0s is not more than imageMinimumGCAge", line: 3},
		"DNS server is no IP":    {file: begin + "clusterDNS: [dns.example]\n", want: "clusterDNS[0]: \"dns.example\" is not an IP address, ignored", line: 3, warning: true},
		"sysctl of the host":     {file: begin + "allowedUnsafeSysctls: ['vm.*']\n", want: "allowedUnsafeSysctls[0]: \"vm.\" is not namespaced", line: 3},
		"sysctl with a space":    {file: begin + "allowedUnsafeSysctls: ['net core']\n", want: "allowedUnsafeSysctls[0]: \"net core\" is neither", line: 3},
		"a gate that is no bool": {file: begin + "featureGates: {NodeSwap: maybe}\n", want: "featureGates: string is not a valid bool", line: 3},
	} {
		t.Run(name, func(t *testing.T) {
			base := Default()
			got, problems := Parse([]byte(tc.file), base)
			if len(problems) == 0 {
				t.Fatal("no problem")
			}
			p := problems[0]
			text := strings.TrimPrefix(problem.Problem{Object: p.Object, Field: p.Field, Message: p.Message}.String(), "KubeletConfiguration: ")
			if !strings.HasPrefix(text, tc.want) || p.Line != tc.line || p.Warning != tc.warning {
				t.Errorf("line %d, warning %t: %s\nwant line %d, warning %t: %s", p.Line, p.Warning, text, tc.line, tc.warning, tc.want)
			}
			if !tc.warning {
				if diff := cmp.Diff(base, got); diff != "" {
					t.Errorf("a refused file changed the settings: %s", diff)
				}
			}
		})
	}
}

// TestParseAllProblems checks that Parse reports all problems together.
func TestParseAllProblems(t *testing.T) {
	_, problems := Parse([]byte(begin+"maxPods: -1\nregistryBurst: -1\nfoo: 1\nstaticPodPath: /a\n"), Default())
	if len(problems.Errors()) != 2 || len(problems.Warnings()) != 2 {
		t.Errorf("want 2 errors and 2 warnings, got:\n%s", problems)
	}
	unused := 0
	for _, p := range problems {
		if p.Reason == ReasonUnused {
			unused++
		}
	}
	if unused != 1 {
		t.Errorf("%d fields are reported as unused, want only staticPodPath", unused)
	}
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "kubelet.yaml")
	if err := os.WriteFile(path, []byte(begin), 0o600); err != nil {
		t.Fatal(err)
	}
	if data, err := ReadFile(t.Context(), path); err != nil || string(data) != begin {
		t.Errorf("got %q, %v", data, err)
	}
	missing := filepath.Join(dir, "none.yaml")
	if _, err := ReadFile(t.Context(), missing); err == nil || err.Error() != "read "+missing+": no such file or directory" {
		t.Errorf("a missing file: %v", err)
	}
	if err := os.WriteFile(path, make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(t.Context(), path); err == nil || !strings.Contains(err.Error(), "larger than 1024 KiB") {
		t.Errorf("a large file: %v", err)
	}
}

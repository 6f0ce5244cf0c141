// Package nodeconfig contains the settings of this node, under the kubelet's names, and
// reads them from a file with a KubeletConfiguration, a PodrunConfiguration or both. A
// flag overrides the environment, which overrides the file.
package nodeconfig

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podrun/podrun/internal/identity"
)

// Settings are the node's settings after flags, environment and file were
// merged. Names and meanings are the kubelet's, where it has them
// (kubelet.config.k8s.io/v1beta1). It marshals to stable JSON.
type Settings struct {
	// File is the settings file that was read; empty for none.
	File string `json:"file,omitempty"`

	// Profile is the profile of the file, whose settings are already in the other fields.
	Profile string `json:"profile,omitempty"`

	RootDir          string `json:"rootDir"`
	Secrets          string `json:"secrets,omitempty"` // disk, which "" means too, or memory
	PodLogsDir       string `json:"podLogsDir"`
	ContainerLogsDir string `json:"containerLogsDir"`
	// Sources are the directories whose manifests `podrun serve` runs.
	Sources []string `json:"sources,omitempty"`
	// Claims are directories of this host by the PersistentVolumeClaim, of any
	// namespace, that each serves.
	Claims map[string]string `json:"persistentVolumeClaims,omitempty"`
	// ClaimDir is where each claim without a volume has a directory; empty for nowhere.
	ClaimDir string `json:"persistentVolumeClaimDir,omitempty"`

	Namespace string `json:"namespace,omitempty"` // of pods that name none; empty: default
	// StrictSources refuses manifests that users other than root can write to.
	StrictSources bool   `json:"strictSources,omitempty"`
	AllowKubelet  bool   `json:"allowKubelet,omitempty"` // run beside a kubelet on the same runtime
	Verbose       bool   `json:"verbose,omitempty"`
	StartOrder    string `json:"startOrder,omitempty"` // kubelet, which "" means too, or parallel
	// ReadOnlyAPI removes exec, attach and port-forward from the HTTP API of serve.
	ReadOnlyAPI bool   `json:"readOnlyAPI,omitempty"`
	Color       string `json:"-"` // auto, always or never; empty for auto

	HostnameOverride string            `json:"hostnameOverride,omitempty"`
	NodeIP           []string          `json:"nodeIP,omitempty"`
	NodeLabels       map[string]string `json:"nodeLabels,omitempty"`

	// Runtime is auto, which "" means too, or embedded; unused if an endpoint is set.
	Runtime                  string        `json:"runtime,omitempty"`
	ContainerRuntimeEndpoint string        `json:"containerRuntimeEndpoint,omitempty"` // empty: as Runtime says
	ImageServiceEndpoint     string        `json:"imageServiceEndpoint,omitempty"`     // empty: the runtime's
	RuntimeRequestTimeout    time.Duration `json:"runtimeRequestTimeout"`              // ns in JSON

	ClusterDNS    []string `json:"clusterDNS,omitempty"`
	ClusterDomain string   `json:"clusterDomain,omitempty"`
	ResolvConf    string   `json:"resolvConf"` // path; "" means no host resolver, as in the kubelet

	CgroupRoot        string        `json:"cgroupRoot"`             // /
	CgroupDriver      string        `json:"cgroupDriver,omitempty"` // empty: detect
	CgroupsPerQOS     bool          `json:"cgroupsPerQOS"`
	CPUCFSQuota       bool          `json:"cpuCFSQuota"`
	CPUCFSQuotaPeriod time.Duration `json:"cpuCFSQuotaPeriod"`
	PodPidsLimit      int64         `json:"podPidsLimit"` // -1: none

	// SwapBehavior is the kubelet's memorySwap.swapBehavior: NoSwap, which ""
	// means too, or LimitedSwap.
	SwapBehavior string `json:"swapBehavior,omitempty"`

	MaxPods        int32             `json:"maxPods"`
	SystemReserved map[string]string `json:"systemReserved,omitempty"` // quantities
	KubeReserved   map[string]string `json:"kubeReserved,omitempty"`
	EvictionHard   map[string]string `json:"evictionHard,omitempty"`
	// EvictionSoft are thresholds that count once they were crossed for as long as
	// EvictionSoftGracePeriod says, by signal; EvictionMinimumReclaim is how much more
	// than a threshold is freed. They are valid, as a file is checked.
	EvictionSoft            map[string]string `json:"evictionSoft,omitempty"`
	EvictionSoftGracePeriod map[string]string `json:"evictionSoftGracePeriod,omitempty"`
	EvictionMinimumReclaim  map[string]string `json:"evictionMinimumReclaim,omitempty"`
	// EvictionPressureTransitionPeriod is for how long the node is under pressure
	// after it was seen last; ns in JSON.
	EvictionPressureTransitionPeriod time.Duration `json:"evictionPressureTransitionPeriod"`
	// EvictionMaxPodGracePeriod bounds the grace period of a pod that a soft threshold
	// evicts, in seconds.
	EvictionMaxPodGracePeriod int32    `json:"evictionMaxPodGracePeriod,omitempty"`
	AllowedUnsafeSysctls      []string `json:"allowedUnsafeSysctls,omitempty"`
	SeccompDefault            bool     `json:"seccompDefault"`
	Preempt                   bool     `json:"preempt"` // critical pods may stop others of podrun's
	AllowPrivileged           bool     `json:"allowPrivileged"`
	PodSecurity               string   `json:"podSecurity,omitempty"` // privileged, baseline or restricted
	// UserNamespaces is prefer, or pod, which "" means too.
	UserNamespaces     string         `json:"userNamespaces,omitempty"`
	RegisterWithTaints []corev1.Taint `json:"registerWithTaints,omitempty"`
	// Devices are CDI devices by the extended resource as which pods request them.
	Devices map[string][]string `json:"devices,omitempty"`

	ContainerLogMaxSize         string        `json:"containerLogMaxSize"` // a quantity
	ContainerLogMaxFiles        int32         `json:"containerLogMaxFiles"`
	ContainerLogMaxWorkers      int32         `json:"containerLogMaxWorkers"`
	ContainerLogMonitorInterval time.Duration `json:"containerLogMonitorInterval"` // ns in JSON

	// MaxContainerRestartPeriod is crashLoopBackOff.maxContainerRestartPeriod; 0 if
	// no file sets it. CrashLoopBackOff has what follows from it.
	MaxContainerRestartPeriod time.Duration `json:"maxContainerRestartPeriod,omitempty"` // ns in JSON

	RegistryPullQPS       int32 `json:"registryPullQPS"` // 0: no limit
	RegistryBurst         int32 `json:"registryBurst"`
	MaxParallelImagePulls int32 `json:"maxParallelImagePulls"` // 0: no limit

	// Images that nothing uses are removed when the disk of images is as full as the
	// high threshold, in percent, until it is as full as the low one; none that is
	// younger than ImageMinimumGCAge, and all that were not used for
	// ImageMaximumGCAge, unless that is 0. Ages are ns in JSON.
	ImageGCHighThresholdPercent int32         `json:"imageGCHighThresholdPercent"`
	ImageGCLowThresholdPercent  int32         `json:"imageGCLowThresholdPercent"`
	ImageMinimumGCAge           time.Duration `json:"imageMinimumGCAge"`
	ImageMaximumGCAge           time.Duration `json:"imageMaximumGCAge,omitempty"`

	// ShutdownGracePeriod is how long pods get to end when the host shuts down, of which
	// ShutdownGracePeriodCriticalPods is for critical pods; or a period for each priority.
	// 0 and none: pods are not stopped before the host is. ShutdownPeriods has what
	// follows from them. Durations are ns in JSON.
	ShutdownGracePeriod              time.Duration                              `json:"shutdownGracePeriod,omitempty"`
	ShutdownGracePeriodCriticalPods  time.Duration                              `json:"shutdownGracePeriodCriticalPods,omitempty"`
	ShutdownGracePeriodByPodPriority []kubelet.ShutdownGracePeriodByPodPriority `json:"shutdownGracePeriodByPodPriority,omitempty"`

	// PullVerification and PullAllowlist say for which images that are present a pod
	// must show that it could pull them.
	PullVerification kubelet.ImagePullCredentialsVerificationPolicy `json:"imagePullCredentialsVerificationPolicy"`
	PullAllowlist    []string                                       `json:"preloadedImagesVerificationAllowlist,omitempty"`

	RetryPullAlways bool           `json:"retryPullAlways,omitempty"`               // what trying again cannot help, too
	PullTimeout     *time.Duration `json:"pullTimeout,omitempty"`                   // of one image; 0: no limit; nil: the command's own; ns in JSON
	PullStall       time.Duration  `json:"pullStallTimeout,omitempty"`              // of one pull without 1 MiB; 0: no limit; ns in JSON
	RegistryAuth    string         `json:"registryAuth,omitempty"`                  // path of a docker config
	ProviderConfig  string         `json:"imageCredentialProviderConfig,omitempty"` // path
	ProviderBinDir  string         `json:"imageCredentialProviderBinDir,omitempty"` // path

	FeatureGates map[string]bool `json:"featureGates,omitempty"`
}

// Default returns the kubelet's defaults (v1.36), except where podrun has a
// reason of its own: its root directory, and images pulled in parallel.
func Default() Settings {
	return Settings{
		RootDir:               "/var/lib/podrun",
		PodLogsDir:            "/var/log/pods",
		ContainerLogsDir:      "/var/log/containers",
		RuntimeRequestTimeout: 2 * time.Minute,
		ResolvConf:            "/etc/resolv.conf",
		CgroupRoot:            "/",
		CgroupsPerQOS:         true,
		CPUCFSQuota:           true,
		CPUCFSQuotaPeriod:     100 * time.Millisecond,
		PodPidsLimit:          -1,
		MaxPods:               110,
		Preempt:               true,
		AllowPrivileged:       true,
		PodSecurity:           "privileged",
		EvictionHard: map[string]string{
			"memory.available":   "100Mi",
			"nodefs.available":   "10%",
			"nodefs.inodesFree":  "5%",
			"imagefs.available":  "15%",
			"imagefs.inodesFree": "5%",
		},
		EvictionPressureTransitionPeriod: 5 * time.Minute,
		ImageGCHighThresholdPercent:      85,
		ImageGCLowThresholdPercent:       80,
		ImageMinimumGCAge:                2 * time.Minute,
		ContainerLogMaxSize:              "10Mi",
		ContainerLogMaxFiles:             5,
		ContainerLogMaxWorkers:           1,
		ContainerLogMonitorInterval:      10 * time.Second,
		RegistryPullQPS:                  5,
		RegistryBurst:                    10,
		PullStall:                        5 * time.Minute, // containerd shows 1 MiB at a time, which takes a slow link minutes
		PullVerification:                 kubelet.NeverVerifyPreloadedImages,
	}
}

// Layout returns the paths of pods under these settings.
func (s Settings) Layout() identity.Layout {
	return identity.Layout{RootDir: s.RootDir, PodLogsDir: s.PodLogsDir, ContainerLogsDir: s.ContainerLogsDir}
}

// SourcesOrDefault are the sources of manifests, DefaultSource if none are set.
func (s Settings) SourcesOrDefault() []string {
	if len(s.Sources) == 0 {
		return []string{DefaultSource}
	}
	return s.Sources
}

// Gate reports whether a feature gate is enabled: as set in the file, or else as
// given.
func (s Settings) Gate(name string, otherwise bool) bool {
	if on, said := s.FeatureGates[name]; said {
		return on
	}
	return otherwise
}

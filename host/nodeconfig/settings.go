// Package nodeconfig contains the settings of this node, under the kubelet's names. It reads them
// from a file with a KubeletConfiguration, a PodrunConfiguration or both. The environment
// overrides the file, and a flag overrides both.
package nodeconfig

import (
	"cmp"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/rootless"
)

// Settings are the node's settings after flags, environment and file were merged. If the kubelet
// has a setting (kubelet.config.k8s.io/v1beta1), its name and meaning are the kubelet's. Settings
// marshal to stable JSON.
type Settings struct {
	// File is the settings file that podrun has read. It is empty if there is none.
	File string `json:"file,omitempty"`

	// Profile is the profile in the file. The other fields already have the profile's settings.
	Profile string `json:"profile,omitempty"`

	RootDir          string `json:"rootDir"`
	Secrets          string `json:"secrets,omitempty"` // disk (the default for "") or memory
	PodLogsDir       string `json:"podLogsDir"`
	ContainerLogsDir string `json:"containerLogsDir"`
	// ManifestDir is the source if there is none in Sources; "" is DefaultSource.
	ManifestDir string `json:"-"`
	// Sources are the directories whose manifests `podrun serve` runs.
	Sources []string `json:"sources,omitempty"`
	// Claims maps the name of a PersistentVolumeClaim, in every namespace, to a directory of this
	// host.
	Claims map[string]string `json:"persistentVolumeClaims,omitempty"`
	// ClaimDir is the directory that has a subdirectory for each claim without a volume. If ClaimDir is empty, such
	// claims have no directory.
	ClaimDir string `json:"persistentVolumeClaimDir,omitempty"`

	Namespace string `json:"namespace,omitempty"` // for pods that specify none; empty: default
	// StrictSources rejects a manifest that a user other than root can write.
	StrictSources bool `json:"strictSources,omitempty"`
	// ImagePolicy is any (the default for "") or verified: all programs of ImageVerifierDir must accept an image.
	ImagePolicy      string `json:"imagePolicy,omitempty"`
	ImageVerifierDir string `json:"imageVerifierDir,omitempty"` // "" for DefaultImageVerifiers

	AllowKubelet bool   `json:"allowKubelet,omitempty"` // run next to a kubelet on the same runtime
	Verbose      bool   `json:"verbose,omitempty"`
	StartOrder   string `json:"startOrder,omitempty"` // kubelet (the default for ""), strict or parallel
	// Replicas is ignore (the default for "") or honour.
	Replicas string `json:"replicas,omitempty"`
	// ProgressDeadline is the deadline after which podrun serve rolls back an update; 0 means that it does not. In ns in
	// JSON.
	ProgressDeadline time.Duration `json:"progressDeadline,omitempty"`
	// ReadOnlyAPI removes exec, attach and port-forward from the HTTP API of serve.
	ReadOnlyAPI bool   `json:"readOnlyAPI,omitempty"`
	Color       string `json:"-"` // auto, always or never; empty for auto

	HostnameOverride string            `json:"hostnameOverride,omitempty"`
	NodeIP           []string          `json:"nodeIP,omitempty"`
	NodeLabels       map[string]string `json:"nodeLabels,omitempty"`

	// Runtime is auto (the default for "") or embedded. podrun does not use it if an endpoint is
	// set.
	Runtime                  string        `json:"runtime,omitempty"`
	RuntimeRecover           bool          `json:"-"`                                  // podrun may replace a damaged store of the embedded runtime
	ContainerRuntimeEndpoint string        `json:"containerRuntimeEndpoint,omitempty"` // empty: selected by Runtime
	ImageServiceEndpoint     string        `json:"imageServiceEndpoint,omitempty"`     // empty: the runtime's
	RuntimeRequestTimeout    time.Duration `json:"runtimeRequestTimeout"`              // ns in JSON

	// PodCIDR contains the pod subnets of the embedded runtime, separated by a comma
	// (ParsePodCIDR); "" to choose them.
	PodCIDR       string   `json:"podCIDR,omitempty"`
	ClusterDNS    []string `json:"clusterDNS,omitempty"`
	ClusterDomain string   `json:"clusterDomain,omitempty"`
	ResolvConf    string   `json:"resolvConf"` // path; "" means no host resolver, as in the kubelet

	CgroupRoot        string        `json:"cgroupRoot"`             // /
	CgroupDriver      string        `json:"cgroupDriver,omitempty"` // empty: detect
	CgroupsPerQOS     bool          `json:"cgroupsPerQOS"`
	CPUCFSQuota       bool          `json:"cpuCFSQuota"`
	CPUCFSQuotaPeriod time.Duration `json:"cpuCFSQuotaPeriod"`
	PodPidsLimit      int64         `json:"podPidsLimit"` // -1: none

	// SwapBehavior is the kubelet's memorySwap.swapBehavior: NoSwap (the default for "")
	// or LimitedSwap.
	SwapBehavior string `json:"swapBehavior,omitempty"`

	MaxPods        int32             `json:"maxPods"`
	SystemReserved map[string]string `json:"systemReserved,omitempty"` // quantities
	KubeReserved   map[string]string `json:"kubeReserved,omitempty"`
	EvictionHard   map[string]string `json:"evictionHard,omitempty"`
	// EvictionSoft maps signals to thresholds. A threshold has an effect after its
	// EvictionSoftGracePeriod. EvictionMinimumReclaim is the amount to free beyond a threshold.
	// All of them are valid, because Parse checks the file.
	EvictionSoft            map[string]string `json:"evictionSoft,omitempty"`
	EvictionSoftGracePeriod map[string]string `json:"evictionSoftGracePeriod,omitempty"`
	EvictionMinimumReclaim  map[string]string `json:"evictionMinimumReclaim,omitempty"`
	// EvictionPressureTransitionPeriod is how long a pressure condition persists after podrun last
	// observed the pressure. It is in ns in JSON.
	EvictionPressureTransitionPeriod time.Duration `json:"evictionPressureTransitionPeriod"`
	// EvictionMaxPodGracePeriod is the maximum grace period, in seconds, of a pod that is evicted
	// because of a soft threshold.
	EvictionMaxPodGracePeriod int32    `json:"evictionMaxPodGracePeriod,omitempty"`
	AllowedUnsafeSysctls      []string `json:"allowedUnsafeSysctls,omitempty"`
	SeccompDefault            bool     `json:"seccompDefault"`
	Preempt                   bool     `json:"preempt"` // critical pods may stop other pods of podrun
	AllowPrivileged           bool     `json:"allowPrivileged"`
	PodSecurity               string   `json:"podSecurity,omitempty"` // privileged, baseline or restricted
	// RequireLimits refuses pods whose limits this host cannot enforce, instead of a warning.
	RequireLimits bool `json:"requireLimits,omitempty"`
	// AllowMetadata lets the pods of an ordinary user connect to the metadata service of a cloud.
	AllowMetadata bool `json:"allowMetadata,omitempty"`
	// UserNamespaces is pod (the default for "") or prefer.
	UserNamespaces     string         `json:"userNamespaces,omitempty"`
	RegisterWithTaints []corev1.Taint `json:"registerWithTaints,omitempty"`
	// Devices maps the extended resources that pods request to CDI devices.
	Devices map[string][]string `json:"devices,omitempty"`

	ContainerLogMaxSize         string        `json:"containerLogMaxSize"` // a quantity
	ContainerLogMaxFiles        int32         `json:"containerLogMaxFiles"`
	ContainerLogMaxWorkers      int32         `json:"containerLogMaxWorkers"`
	ContainerLogMonitorInterval time.Duration `json:"containerLogMonitorInterval"` // ns in JSON

	// MaxContainerRestartPeriod is crashLoopBackOff.maxContainerRestartPeriod. It is 0 if no file
	// sets it. CrashLoopBackOff returns the delays that result from it.
	MaxContainerRestartPeriod time.Duration `json:"maxContainerRestartPeriod,omitempty"` // ns in JSON

	RegistryPullQPS       int32 `json:"registryPullQPS"` // 0: no limit
	RegistryBurst         int32 `json:"registryBurst"`
	MaxParallelImagePulls int32 `json:"maxParallelImagePulls"` // 0: no limit

	// If the usage of the image disk reaches the high threshold (in percent), podrun removes
	// unused images until the usage reaches the low one. It keeps images that are younger than
	// ImageMinimumGCAge. It also removes each image that was not used for ImageMaximumGCAge,
	// whatever the usage is; an ImageMaximumGCAge of 0 disables this. Ages are in ns in JSON.
	ImageGCHighThresholdPercent int32         `json:"imageGCHighThresholdPercent"`
	ImageGCLowThresholdPercent  int32         `json:"imageGCLowThresholdPercent"`
	ImageMinimumGCAge           time.Duration `json:"imageMinimumGCAge"`
	ImageMaximumGCAge           time.Duration `json:"imageMaximumGCAge,omitempty"`

	// ShutdownGracePeriod is the time that pods have to terminate when the host shuts down.
	// ShutdownGracePeriodCriticalPods is the part of this time that is reserved for critical pods.
	// Alternatively, each priority has its own period. If none of them is set, podrun does not
	// stop pods before the shutdown. ShutdownPeriods returns the periods that result. Durations
	// are in ns in JSON.
	ShutdownGracePeriod              time.Duration                              `json:"shutdownGracePeriod,omitempty"`
	ShutdownGracePeriodCriticalPods  time.Duration                              `json:"shutdownGracePeriodCriticalPods,omitempty"`
	ShutdownGracePeriodByPodPriority []kubelet.ShutdownGracePeriodByPodPriority `json:"shutdownGracePeriodByPodPriority,omitempty"`

	// PullVerification and PullAllowlist specify for which images a pod must prove that it could
	// pull them, although they are already present.
	PullVerification kubelet.ImagePullCredentialsVerificationPolicy `json:"imagePullCredentialsVerificationPolicy"`
	PullAllowlist    []string                                       `json:"preloadedImagesVerificationAllowlist,omitempty"`

	RetryPullAlways bool           `json:"retryPullAlways,omitempty"`               // even after errors that a retry cannot fix
	PullTimeout     *time.Duration `json:"pullTimeout,omitempty"`                   // for one image; 0: no limit; nil: the command's default; ns in JSON
	PullStall       time.Duration  `json:"pullStallTimeout,omitempty"`              // podrun cancels a pull that makes less than 1 MiB of progress in this time; 0: no limit; ns in JSON
	RegistryAuth    string         `json:"registryAuth,omitempty"`                  // path of a docker config
	ProviderConfig  string         `json:"imageCredentialProviderConfig,omitempty"` // path
	ProviderBinDir  string         `json:"imageCredentialProviderBinDir,omitempty"` // path

	FeatureGates map[string]bool `json:"featureGates,omitempty"`
}

// Default returns the kubelet's defaults (v1.36). Only the root directory and the number of
// parallel image pulls are podrun's own, and the directories of an ordinary user.
func Default() Settings {
	s := defaults()
	if rootless.User() {
		data := rootless.DataDir()
		s.RootDir, s.PodLogsDir, s.ContainerLogsDir = data, filepath.Join(data, "logs"), filepath.Join(data, "container-logs")
		s.ManifestDir = filepath.Join(rootless.ConfigDir(), filepath.Base(DefaultSource))
	}
	return s
}

// defaults is Default with root's directories.
func defaults() Settings {
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
		RuntimeRecover:        true,
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
		// containerd reports progress in steps of 1 MiB. A step takes minutes on a slow link.
		PullStall:        5 * time.Minute,
		PullVerification: kubelet.NeverVerifyPreloadedImages,
	}
}

// Layout returns the paths of pods with these settings.
func (s Settings) Layout() identity.Layout {
	return identity.Layout{RootDir: s.RootDir, PodLogsDir: s.PodLogsDir, ContainerLogsDir: s.ContainerLogsDir, RunDir: rootless.RunDir()}
}

// SourcesOrDefault returns the sources of manifests. It returns the default directory if none are set.
func (s Settings) SourcesOrDefault() []string {
	if len(s.Sources) == 0 {
		return []string{cmp.Or(s.ManifestDir, DefaultSource)}
	}
	return s.Sources
}

// Gate reports whether a feature gate is enabled. If the file does not set the gate, Gate
// returns otherwise.
func (s Settings) Gate(name string, otherwise bool) bool {
	if on, said := s.FeatureGates[name]; said {
		return on
	}
	return otherwise
}

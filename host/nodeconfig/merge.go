package nodeconfig

import (
	"maps"

	kubelet "k8s.io/kubelet/config/v1beta1"
)

// merge overrides base with a valid file. Like the kubelet (v1beta1/defaults.go), it treats some
// zero values as if they were not set.
func merge(s Settings, kc *kubelet.KubeletConfiguration) Settings {
	text(&s.PodLogsDir, kc.PodLogsDir)
	text(&s.ContainerRuntimeEndpoint, kc.ContainerRuntimeEndpoint)
	text(&s.ImageServiceEndpoint, kc.ImageServiceEndpoint)
	text(&s.ClusterDomain, kc.ClusterDomain)
	text(&s.CgroupRoot, kc.CgroupRoot)
	text(&s.CgroupDriver, kc.CgroupDriver)
	text(&s.ContainerLogMaxSize, kc.ContainerLogMaxSize)
	text(&s.SwapBehavior, kc.MemorySwap.SwapBehavior)
	if kc.RuntimeRequestTimeout.Duration != 0 {
		s.RuntimeRequestTimeout = kc.RuntimeRequestTimeout.Duration
	}
	if kc.CPUCFSQuotaPeriod != nil {
		s.CPUCFSQuotaPeriod = kc.CPUCFSQuotaPeriod.Duration
	}
	setIfGiven(&s.ResolvConf, kc.ResolverConfig)
	setIfGiven(&s.CgroupsPerQOS, kc.CgroupsPerQOS)
	setIfGiven(&s.CPUCFSQuota, kc.CPUCFSQuota)
	setIfGiven(&s.PodPidsLimit, kc.PodPidsLimit)
	s.PodPidsLimit = max(s.PodPidsLimit, -1)
	setIfGiven(&s.SeccompDefault, kc.SeccompDefault)
	setIfGiven(&s.ContainerLogMaxFiles, kc.ContainerLogMaxFiles)
	setIfGiven(&s.ContainerLogMaxWorkers, kc.ContainerLogMaxWorkers)
	if d := kc.ContainerLogMonitorInterval; d != nil {
		s.ContainerLogMonitorInterval = d.Duration
	}
	if d := kc.CrashLoopBackOff.MaxContainerRestartPeriod; d != nil {
		s.MaxContainerRestartPeriod = d.Duration
	}
	setIfGiven(&s.RegistryPullQPS, kc.RegistryPullQPS)
	if kc.RegistryBurst != 0 {
		s.RegistryBurst = kc.RegistryBurst
	}
	if kc.ImagePullCredentialsVerificationPolicy != "" {
		s.PullVerification = kc.ImagePullCredentialsVerificationPolicy
	}
	list(&s.PullAllowlist, kc.PreloadedImagesVerificationAllowlist)
	if kc.MaxPods != 0 {
		s.MaxPods = kc.MaxPods
	}
	text(&s.PodCIDR, kc.PodCIDR)
	list(&s.ClusterDNS, validNameservers(kc.ClusterDNS))
	if kc.RegisterWithTaints != nil {
		s.RegisterWithTaints = kc.RegisterWithTaints
	}
	list(&s.AllowedUnsafeSysctls, kc.AllowedUnsafeSysctls)
	quantities(&s.SystemReserved, kc.SystemReserved)
	quantities(&s.KubeReserved, kc.KubeReserved)
	s.MaxParallelImagePulls = parallelPulls(s.MaxParallelImagePulls, kc)
	mergeEvictions(&s, kc)
	mergeShutdown(&s, kc)
	if len(kc.FeatureGates) > 0 {
		s.FeatureGates = overlaid(s.FeatureGates, kc.FeatureGates)
	}
	return s
}

func text(into *string, value string) {
	if value != "" {
		*into = value
	}
}

func setIfGiven[T any](into, value *T) {
	if value != nil {
		*into = *value
	}
}

func list(into *[]string, value []string) {
	if value != nil {
		*into = value
	}
}

func quantities(into *map[string]string, value map[string]string) {
	if value != nil {
		*into = value
	}
}

// parallelPulls returns the maximum number of concurrent pulls. 0 means no limit.
// serializeImagePulls counts only if the file sets it: the kubelet's default is true, but
// podrun's is not.
func parallelPulls(base int32, kc *kubelet.KubeletConfiguration) int32 {
	switch {
	case kc.MaxParallelImagePulls != nil:
		return *kc.MaxParallelImagePulls
	case kc.SerializeImagePulls != nil && *kc.SerializeImagePulls:
		return 1
	case kc.SerializeImagePulls != nil:
		return 0
	}
	return base
}

func overlaid[V any](base, top map[string]V) map[string]V {
	out := make(map[string]V, len(base)+len(top))
	maps.Copy(out, base)
	maps.Copy(out, top)
	return out
}

package nodeconfig

import (
	"fmt"
	"maps"
	"net"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/component-helpers/node/util/sysctl"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podrun/podrun/internal/resource"
)

// check reports values that the kubelet would reject, in the fields that podrun uses
// (pkg/kubelet/apis/config/validation, cmd/kubelet/app and pkg/kubelet/eviction of v1.36).
func (f *file) check(kc *kubelet.KubeletConfiguration) {
	if d := kc.CgroupDriver; d != "" && d != "cgroupfs" && d != "systemd" {
		f.invalid("cgroupDriver", fmt.Sprintf("%q is not a driver", d), "use cgroupfs or systemd, or remove it to use the runtime's driver")
	}
	if b := kc.MemorySwap.SwapBehavior; b != "" && b != "NoSwap" && b != "LimitedSwap" {
		f.invalid("memorySwap.swapBehavior", fmt.Sprintf("%q is not a swap behavior", b), "use NoSwap or LimitedSwap")
	}
	if d := kc.RuntimeRequestTimeout.Duration; d < 0 {
		f.invalid("runtimeRequestTimeout", fmt.Sprintf("%s is negative", d), "")
	}
	if p := kc.CPUCFSQuotaPeriod; p != nil && (p.Duration < time.Millisecond || p.Duration > time.Second) {
		f.invalid("cpuCFSQuotaPeriod", fmt.Sprintf("%s is not between 1ms and 1s", p.Duration), "")
	}
	f.checkVerification(kc)
	f.checkPaths(kc)
	f.checkNumbers(kc)
	f.checkLogs(kc)
	f.checkSupervision(kc)
	f.checkReserved("systemReserved", kc.SystemReserved)
	f.checkReserved("kubeReserved", kc.KubeReserved)
	f.checkEvictions(kc)
	f.checkImageGC(kc)
	f.checkShutdown(kc)
	if _, err := ParsePodCIDR(kc.PodCIDR); err != nil {
		f.invalid("podCIDR", err.Error(), "such as 10.64.0.0/24,fd00:10:64::/64")
	}
	for i, ip := range kc.ClusterDNS {
		if net.ParseIP(ip) == nil {
			f.add(fmt.Sprintf("clusterDNS[%d]", i), "FieldValueInvalid", fmt.Sprintf("%q is not an IP address, ignored", ip), "", true)
		}
	}
	for i, s := range kc.AllowedUnsafeSysctls {
		at, example := fmt.Sprintf("allowedUnsafeSysctls[%d]", i), "such as net.core.somaxconn or kernel.shm*"
		if !sysctlPattern().MatchString(s) || len(s) > 253 {
			f.invalid(at, fmt.Sprintf("%q is neither a sysctl nor a prefix that ends in *", s), example)
		} else if ns, name, _ := sysctl.GetNamespace(s); ns == sysctl.UnknownNamespace {
			f.invalid(at, fmt.Sprintf("%q is not namespaced: a pod would set it for the whole host", name), example)
		}
	}
}

// sysctlPattern matches a sysctl's name, or a prefix that ends with "*". It is the kubelet's
// own rule; the separators are dots or slashes.
var sysctlPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]$`)
})

// validNameservers returns the valid IP addresses. The kubelet ignores the others.
func validNameservers(servers []string) []string {
	if servers == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(servers), func(s string) bool { return net.ParseIP(s) == nil })
}

func (f *file) checkPaths(kc *kubelet.KubeletConfiguration) {
	if dir := kc.PodLogsDir; dir != "" {
		f.checkPath("podLogsDir", dir)
		if strings.IndexFunc(dir, func(r rune) bool { return r > 127 }) >= 0 {
			f.invalid("podLogsDir", fmt.Sprintf("%q has characters other than ASCII", dir), "")
		}
	}
	if kc.CgroupRoot != "" {
		f.checkPath("cgroupRoot", kc.CgroupRoot)
	}
}

// maxPath is PATH_MAX, in bytes, including the final NUL.
const maxPath = 4096

func (f *file) checkPath(field, value string) {
	switch {
	case len(value) >= maxPath:
		f.invalid(field, fmt.Sprintf("longer than %d bytes", maxPath-1), "")
	case !path.IsAbs(value):
		f.invalid(field, fmt.Sprintf("%q is not an absolute path", value), "")
	case path.Clean(value) != value:
		f.invalid(field, fmt.Sprintf("%q is not a clean path", value), "write "+path.Clean(value))
	}
}

func (f *file) checkNumbers(kc *kubelet.KubeletConfiguration) {
	for _, n := range []struct {
		field string
		value int64
	}{
		{"maxPods", int64(kc.MaxPods)},
		{"registryBurst", int64(kc.RegistryBurst)},
		{"registryPullQPS", int64(deref(kc.RegistryPullQPS, 0))},
	} {
		if n.value < 0 {
			f.invalid(n.field, fmt.Sprintf("%d is negative", n.value), "")
		}
	}
	pulls := deref(kc.MaxParallelImagePulls, 1)
	if pulls < 1 {
		f.invalid("maxParallelImagePulls", fmt.Sprintf("%d is not positive", pulls), "")
	}
	if pulls > 1 && deref(kc.SerializeImagePulls, false) {
		f.invalid("maxParallelImagePulls", fmt.Sprintf("must not be %d while serializeImagePulls is true", pulls), "set serializeImagePulls to false")
	}
}

func (f *file) checkLogs(kc *kubelet.KubeletConfiguration) {
	if n := deref(kc.ContainerLogMaxFiles, 2); n < 2 {
		f.invalid("containerLogMaxFiles", fmt.Sprintf("%d is less than 2", n), "")
	}
	if size := kc.ContainerLogMaxSize; size != "" {
		if _, err := resource.ParseQuantity(size); err != nil {
			f.invalid("containerLogMaxSize", fmt.Sprintf("%q is not a quantity", size), "such as 10Mi; a negative one sets no limit")
		}
	}
}

// checkReserved checks the resources that are reserved for the system.
func (f *file) checkReserved(field string, reserved map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(reserved)) {
		at := fmt.Sprintf("%s[%s]", field, name)
		if !slices.Contains([]string{"cpu", "memory", "ephemeral-storage", "pid"}, name) {
			f.invalid(at, "the resource cannot be reserved", "cpu, memory, ephemeral-storage or pid")
			continue
		}
		switch q, err := resource.ParseQuantity(reserved[name]); {
		case err != nil:
			f.invalid(at, fmt.Sprintf("%q is not a quantity", reserved[name]), "such as 500m or 1Gi")
		case q.Sign() < 0:
			f.invalid(at, fmt.Sprintf("%q is negative", reserved[name]), "")
		}
	}
}

func deref[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

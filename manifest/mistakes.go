package manifest

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podrun/podrun/internal/problem"
)

// capabilityNames are the API's names of the Linux capabilities: those of capabilities(7)
// without CAP_.
var capabilityNames = []string{
	"AUDIT_CONTROL", "AUDIT_READ", "AUDIT_WRITE", "BLOCK_SUSPEND", "BPF", "CHECKPOINT_RESTORE", "CHOWN", "DAC_OVERRIDE",
	"DAC_READ_SEARCH", "FOWNER", "FSETID", "IPC_LOCK", "IPC_OWNER", "KILL", "LEASE", "LINUX_IMMUTABLE", "MAC_ADMIN",
	"MAC_OVERRIDE", "MKNOD", "NET_ADMIN", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_RAW", "PERFMON", "SETFCAP", "SETGID",
	"SETPCAP", "SETUID", "SYSLOG", "SYS_ADMIN", "SYS_BOOT", "SYS_CHROOT", "SYS_MODULE", "SYS_NICE", "SYS_PACCT", "SYS_PTRACE",
	"SYS_RAWIO", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "WAKE_ALARM", "ALL",
}

// leastMemory is the minimum memory limit that Load accepts, in bytes. runc requires more than
// this to start any process.
var leastMemory = resource.MustParse("1Mi")

// mistakes reports values that the API accepts although they do not have the effect that the author
// intended. It runs before defaulting, because defaulting copies limits to requests.
func (s podSpec) mistakes() {
	for _, list := range []struct {
		name       string
		containers []corev1.Container
	}{{"initContainers", s.spec.InitContainers}, {"containers", s.spec.Containers}} {
		for i := range list.containers {
			c, path := &list.containers[i], fmt.Sprintf("spec.%s[%d]", list.name, i)
			s.capabilities(path, c.SecurityContext)
			s.memory(path, &c.Resources)
		}
	}
	for i := range s.spec.EphemeralContainers {
		s.capabilities(fmt.Sprintf("spec.ephemeralContainers[%d]", i), s.spec.EphemeralContainers[i].SecurityContext)
	}
	if s.spec.Resources != nil {
		s.memory("spec", s.spec.Resources)
	}
}

// capabilities warns about names that are not capabilities. containerd adds CAP_ to the beginning
// of each name, and ignores the result if it is unknown, so drop: [CAP_NET_RAW] drops nothing. The
// API does not check names, because a newer kernel may have more capabilities.
func (s podSpec) capabilities(container string, sc *corev1.SecurityContext) {
	if sc == nil || sc.Capabilities == nil {
		return
	}
	check := func(list string, names []corev1.Capability) {
		for i, c := range names {
			name := strings.ToUpper(string(c)) // like runtimes
			if slices.Contains(capabilityNames, name) {
				continue
			}
			p := s.problem(fmt.Sprintf("%s.securityContext.capabilities.%s[%d]", container, list, i), "UnknownCapability",
				fmt.Sprintf("%q is not the name of a capability: the container runtime may ignore it", c))
			p.Warning = true
			if similar := nearest(strings.TrimPrefix(name, "CAP_"), capabilityNames); similar != "" {
				p.Hint = "did you mean " + similar + "?"
			}
			s.l.add(p)
		}
	}
	check("add", sc.Capabilities.Add)
	check("drop", sc.Capabilities.Drop)
}

// memory refuses memory limits that are too low to start a container, such as 64m, which is
// 0.064 bytes. For requests of this size, it adds a warning. A limit of zero means no limit.
func (s podSpec) memory(path string, r *corev1.ResourceRequirements) {
	tooLow := func(list string, q resource.Quantity) problem.Problem {
		p := s.problem(path+".resources."+list+"[memory]", "MemoryTooLow", q.String()+" is less than "+leastMemory.String())
		p.Hint = meantMemory(q)
		return p
	}
	if q := r.Limits[corev1.ResourceMemory]; q.Sign() > 0 && q.Cmp(leastMemory) < 0 {
		p := tooLow("limits", q)
		p.Message += ": no container can start with this limit"
		s.l.add(p)
	}
	// Kubernetes' own code warns about fractions of bytes.
	if q := r.Requests[corev1.ResourceMemory]; q.Sign() > 0 && q.Cmp(leastMemory) < 0 && q.MilliValue()%1000 == 0 {
		p := tooLow("requests", q)
		p.Warning = true
		s.l.add(p)
	}
}

// meantMemory returns the hint for a quantity of memory that is too low. If it has no unit, or
// the m that other programs interpret as megabytes, the hint suggests the same number of Mi.
func meantMemory(q resource.Quantity) string {
	number := strings.TrimSuffix(q.String(), "m")
	if strings.Trim(number, "0123456789") == "" && len(number) < 6 {
		return "did you mean " + number + "Mi?"
	}
	return "write at least " + leastMemory.String()
}

package dns

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The limits of the kernel's nodename. A host name is a DNS label with at most 63 characters. A fully qualified name
// may use all 64 characters (KEP-1797).
const (
	maxHostname = 63
	maxFQDN     = 64
)

// Name is the pod's host name. A pod in the host network does not use it, because such a pod
// has the host's name.
type Name struct {
	Host   string `json:"host"`             // for example, web-0
	Domain string `json:"domain,omitempty"` // for example, web.default.svc.cluster.local
	Kernel string `json:"kernel"`           // as printed by hostname(1): Host, or the FQDN if setHostnameAsFQDN is set
}

// FQDN returns the fully qualified name. It returns Host if there is no domain.
func (n Name) FQDN() string {
	if n.Domain == "" {
		return n.Host
	}
	return n.Host + "." + n.Domain
}

// Hostname computes the pod's host name. The argument override determines whether
// spec.hostnameOverride has an effect (KEP-4762; feature gate HostnameOverride, on by default). It
// returns an error if the host name is empty, or if the full name is too long for the kernel.
func Hostname(pod *corev1.Pod, clusterDomain string, override bool) (Name, error) {
	spec := pod.Spec
	if override && spec.HostnameOverride != nil {
		host := truncate(*spec.HostnameOverride)
		return Name{Host: host, Kernel: host}, nil
	}
	n := Name{Host: pod.Name}
	if spec.Hostname != "" {
		n.Host = spec.Hostname
	}
	n.Host = truncate(n.Host)
	if n.Host == "" {
		return Name{}, fmt.Errorf("pod %s/%s: %q has no valid hostname in its first %d characters: set spec.hostname",
			pod.Namespace, pod.Name, pod.Name, maxHostname)
	}
	if spec.Subdomain != "" {
		// If there is no cluster domain, the kubelet's name ends with a dot.
		n.Domain = strings.TrimSuffix(fmt.Sprintf("%s.%s.svc.%s", spec.Subdomain, pod.Namespace, clusterDomain), ".")
	}
	n.Kernel = n.Host
	if n.Domain != "" && spec.SetHostnameAsFQDN != nil && *spec.SetHostnameAsFQDN {
		n.Kernel = n.FQDN()
	}
	if len(n.Kernel) > maxFQDN {
		return Name{}, fmt.Errorf("pod %s/%s: FQDN %s is too long (%d characters is the max, %d characters requested): shorten the name or the subdomain, or drop setHostnameAsFQDN",
			pod.Namespace, pod.Name, n.Kernel, maxFQDN, len(n.Kernel))
	}
	return n, nil
}

// truncate shortens a name to the maximum length of a label. The result must not end in - or
// . (kubernetes issue 36951).
func truncate(name string) string {
	if len(name) <= maxHostname {
		return name
	}
	return strings.TrimRight(name[:maxHostname], "-.")
}

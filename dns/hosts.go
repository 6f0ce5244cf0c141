package dns

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// EtcHosts returns the content of the pod's /etc/hosts. It begins with the pod's own names. For a
// pod in the host network, it begins with the host's file, which the caller passes as hostFile. The
// pod's hostAliases follow. The argument podIPs contains the pod's addresses; EtcHosts ignores it
// for a pod in the host network.
func EtcHosts(pod *corev1.Pod, name Name, podIPs []string, hostFile string) string {
	var b strings.Builder
	if pod.Spec.HostNetwork {
		b.WriteString("# Kubernetes-managed hosts file (host network).\n")
		b.WriteString(hostFile)
	} else {
		b.WriteString(managedHosts)
		for _, ip := range podIPs {
			line := []string{ip, name.Host}
			if name.Domain != "" {
				line = []string{ip, name.FQDN(), name.Host}
			}
			b.WriteString(strings.Join(line, "\t") + "\n")
		}
	}
	if len(pod.Spec.HostAliases) > 0 {
		b.WriteString("\n# Entries added by HostAliases.\n")
	}
	for _, a := range pod.Spec.HostAliases {
		b.WriteString(a.IP + "\t" + strings.Join(a.Hostnames, "\t") + "\n")
	}
	return b.String()
}

// managedHosts is the beginning of /etc/hosts if the pod has a pod network. The header allows
// programs to distinguish this file from a file in the image.
const managedHosts = "# Kubernetes-managed hosts file.\n" +
	"127.0.0.1\tlocalhost\n" +
	"::1\tlocalhost ip6-localhost ip6-loopback\n" +
	"fe00::0\tip6-localnet\n" +
	"fe00::0\tip6-mcastprefix\n" +
	"fe00::1\tip6-allnodes\n" +
	"fe00::2\tip6-allrouters\n"

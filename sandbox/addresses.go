package sandbox

import (
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	netutils "k8s.io/utils/net"
)

// IPs are the addresses of a sandbox, the primary one first, in canonical
// form. Text that is no address makes the list empty, as in the kubelet.
func IPs(status *runtimeapi.PodSandboxStatus) []string {
	texts := []string{status.GetNetwork().GetIp()}
	for _, more := range status.GetNetwork().GetAdditionalIps() {
		texts = append(texts, more.GetIp())
	}
	var out []string
	for i, text := range texts {
		ip := netutils.ParseIPSloppy(text)
		if ip == nil && i == 0 && text == "" {
			continue // the runtime does not do this sandbox's network
		}
		if ip == nil {
			return nil
		}
		out = append(out, ip.String())
	}
	return out
}

package sandbox

import (
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	netutils "k8s.io/utils/net"
)

// IPs returns the addresses of a sandbox in canonical form, the primary one first. Like the
// kubelet, it returns nil if one of them is not a valid address.
func IPs(status *runtimeapi.PodSandboxStatus) []string {
	texts := []string{status.GetNetwork().GetIp()}
	for _, more := range status.GetNetwork().GetAdditionalIps() {
		texts = append(texts, more.GetIp())
	}
	var out []string
	for i, text := range texts {
		ip := netutils.ParseIPSloppy(text)
		if ip == nil && i == 0 && text == "" {
			// The address is empty if the runtime does not manage the network of this sandbox.
			continue
		}
		if ip == nil {
			return nil
		}
		out = append(out, ip.String())
	}
	return out
}

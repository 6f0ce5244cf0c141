package sandbox

import (
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	netutils "k8s.io/utils/net"
)

// IPs returns the addresses of a sandbox, primary first, in canonical form. If one of them
// is not a valid address, it returns none, as the kubelet does.
func IPs(status *runtimeapi.PodSandboxStatus) []string {
	texts := []string{status.GetNetwork().GetIp()}
	for _, more := range status.GetNetwork().GetAdditionalIps() {
		texts = append(texts, more.GetIp())
	}
	var out []string
	for i, text := range texts {
		ip := netutils.ParseIPSloppy(text)
		if ip == nil && i == 0 && text == "" {
			continue // empty: the runtime does not manage the network of this sandbox
		}
		if ip == nil {
			return nil
		}
		out = append(out, ip.String())
	}
	return out
}

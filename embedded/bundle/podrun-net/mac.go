package main

import (
	"fmt"
	"net"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
)

// mac returns the MAC address that the call requests for the sandbox's interface, or nil. It also returns CNI_ARGS
// without this request, because host-local's library refuses arguments that it does not use. As in upstream's bridge,
// the capability takes precedence over CNI_ARGS.
func (c *config) mac(args string) (mac net.HardwareAddr, others string, err error) {
	text := ""
	var rest []string
	for arg := range strings.SplitSeq(args, ";") {
		if value, ok := strings.CutPrefix(arg, "MAC="); ok {
			text = value
		} else if arg != "" {
			rest = append(rest, arg)
		}
	}
	for _, other := range []string{c.Args.CNI.MAC, c.RuntimeConfig.MAC} {
		if other != "" {
			text = other
		}
	}
	others = strings.Join(rest, ";")
	if text == "" {
		return nil, others, nil
	}
	mac, err = net.ParseMAC(text)
	if err != nil || len(mac) != 6 || mac[0]&1 != 0 {
		return nil, "", types.NewError(types.ErrInvalidNetworkConfig, fmt.Sprintf("network %s: %q is not a MAC address of an interface", c.Name, text), "")
	}
	return mac, others, nil
}

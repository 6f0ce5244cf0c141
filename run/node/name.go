package node

import (
	"os"
	"strings"

	"github.com/podrun/podrun/run/store"
)

// Supervised reports whether `podrun serve` supervises the pods of this root
// directory.
func (n *Node) Supervised() bool { return store.Supervised(n.Layout()) }

// NodeName returns the node name for pods: the machine's host name in the kubelet's normalized
// form, unless a setting overrides it. It returns "" if the machine has no host name.
func (n *Node) NodeName() string {
	if n.Settings.HostnameOverride != "" {
		return n.Settings.HostnameOverride
	}
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return strings.ToLower(strings.TrimSpace(name))
}

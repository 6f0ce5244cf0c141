package host

// User describes the ordinary user who runs podrun, and the limits of this user's namespaces
// (docs/design/rootless.md).
type User struct {
	Name string `json:"name"`
	// UIDs and GIDs are the numbers of IDs that containers can have, beginning at 0: 1 if the user has no subordinate
	// IDs.
	UIDs int64 `json:"uids"`
	GIDs int64 `json:"gids"`
	// FirstPort is the lowest port of the host on which the user may listen (net.ipv4.ip_unprivileged_port_start).
	FirstPort int32 `json:"firstPort"`
	// Resolvers are the name servers of podrun-rootless, which forward to those of the host.
	Resolvers []string `json:"resolvers,omitempty"`
}

// PodResolvConf returns the host's resolver configuration for a pod. The pods of an ordinary user cannot reach a name
// server on the host's loopback interface, unless they use the host's network.
func (f Facts) PodResolvConf(hostNetwork bool) ResolvConf {
	c := f.ResolvConf
	if f.User != nil && len(f.User.Resolvers) > 0 && !hostNetwork && c.Path != "" {
		c.Nameservers = f.User.Resolvers
	}
	return c
}

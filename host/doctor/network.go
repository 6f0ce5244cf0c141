package doctor

import (
	"fmt"
	"net"
	"slices"
	"strings"
)

// networkReady reports a failure if pods need the pod network and the network is not ready.
func networkReady(in Input) Finding {
	return in.requireRuntime("network-ready", func() Finding {
		if p, bad := in.refused("NetworkNotReady"); bad {
			f := refusal("", p)
			if in.Checkup.CNI.Config == "" {
				f.Fix = in.fixCNI()
			}
			return f
		}
		if in.HostNetworkOnly {
			return pass("", "not required: all pods in the input set hostNetwork")
		}
		return pass("", "the network is ready")
	})
}

// conflist configures a network for one host, with plugins that every distribution packages.
// Its subnet is podman's default. This subnet rarely overlaps the routes of a site. The text
// remains valid if a terminal wraps it at blanks.
const conflist = `{"cniVersion": "1.0.0", "name": "podrun", "plugins": [` +
	`{"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true, ` +
	`"ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}]}}, ` +
	`{"type": "portmap", "capabilities": {"portMappings": true}}]}`

// fixCNI says how to configure a network: with a file in the directory that the runtime reads.
func (in Input) fixCNI() string {
	dir := in.Checkup.CNI.ConfDir
	fix := fmt.Sprintf("mkdir -p %s && echo '%s' > %s/10-podrun.conflist", dir, conflist, dir)
	if command := install(in.Checkup, "cni"); command != "" && !in.Checkup.CNI.BridgeInstalled {
		fix = command + "; " + fix
	}
	return fix + "; or set spec.hostNetwork in the pods"
}

// cni checks the network configuration itself. A runtime reports that its network is ready without
// calling the plugins.
func cni(in Input) Finding {
	c := in.Checkup.CNI
	bad := Fail
	if in.HostNetworkOnly || in.down() || in.Facts.Runtime.CNIConfDir == "" {
		// Another runtime may use the configuration.
		bad = Warn
	}
	switch {
	case in.down() && in.Startable && in.Embedded != "":
		return pass("cni", "the embedded runtime configures its network when it starts")
	case c.Config == "" && in.Facts.Runtime.IsCRIO() && in.Facts.Runtime.CNIConfDir == "":
		return Finding{Check: "cni", Status: Skip, Summary: "the runtime does not report the directory of its network configuration"}
	case c.Config == "":
		f := Finding{Check: "cni", Status: Warn, Summary: "no network is configured in " + c.ConfDir, Fix: in.fixCNI()}
		if _, said := in.refused("NetworkNotReady"); !in.down() && !said {
			f = pass("cni", "the network is configured outside %s", c.ConfDir)
		}
		return f
	case c.Problem != "":
		return Finding{Check: "cni", Status: bad, Summary: c.Config + ": " + c.Problem, Fix: "correct it"}
	case len(c.Missing) > 0:
		fix := install(in.Checkup, "cni")
		if fix == "" {
			fix = "install the CNI plugins"
		}
		key := "bin_dir"
		if in.Facts.Runtime.IsCRIO() {
			key = "plugin_dirs in [crio.network]"
		}
		return Finding{Check: "cni", Status: bad, Fix: fix + ", or set their directory in the runtime's configuration (" + key + ")",
			Summary: fmt.Sprintf("network %s of %s requires plugins that are not in %s: %s", c.Network, c.Config, strings.Join(c.BinDirs, ", "), strings.Join(c.Missing, ", "))}
	}
	return pass("cni", "network %s of %s: %s", c.Network, c.Config, strings.Join(c.Plugins, ", "))
}

func addresses(in Input) Finding {
	f := in.Facts
	local := func(text string) bool { ip := net.ParseIP(text); return ip != nil && ip.IsLoopback() }
	switch {
	case len(f.NodeIPs) == 0 || slices.ContainsFunc(f.NodeIPs, local):
		return Finding{Check: "addresses", Status: Warn, Summary: "the host has only a loopback address: pods cannot use status.hostIP",
			Fix: "set another address with --node-ip"}
	case f.DefaultRoute == "":
		return Finding{Check: "addresses", Status: Warn, Summary: fmt.Sprintf("%s; the host has no default route: pods have no external network, and registries may be unreachable",
			strings.Join(f.NodeIPs, ", ")), Fix: "ip route add default via …"}
	}
	return pass("addresses", "%s, by %s", strings.Join(f.NodeIPs, ", "), f.DefaultRoute)
}

// The kubelet's limits for the resolver of a pod (k8s.io/kubernetes/pkg/apis/core/validation).
const (
	maxServers  = 3
	maxSearches = 32
)

func resolver(in Input) Finding {
	c := in.Facts.ResolvConf
	warn := func(fix, format string, args ...any) Finding {
		return Finding{Check: "resolver", Status: Warn, Summary: c.Path + fmt.Sprintf(format, args...), Fix: fix}
	}
	loopback := slices.IndexFunc(c.Nameservers, func(s string) bool { ip := net.ParseIP(s); return ip != nil && ip.IsLoopback() })
	switch {
	case c.Path == "":
		return pass("resolver", "no file is set (--resolv-conf): pods get name servers only from dnsConfig and --cluster-dns")
	case len(c.Nameservers) == 0:
		return warn("add name servers to it, or set another file with --resolv-conf", " has no name servers: pods cannot resolve names")
	case loopback >= 0:
		return warn("set a file with name servers that pods can reach: --resolv-conf=FILE", " contains the name server %s: in a pod, this loopback address is the pod itself", c.Nameservers[loopback])
	case len(c.Nameservers) > maxServers:
		return warn("", " has %d name servers: pods get the first %d", len(c.Nameservers), maxServers)
	case len(c.Searches) > maxSearches:
		return warn("", " has %d search domains: pods get the first %d", len(c.Searches), maxSearches)
	}
	return pass("resolver", "%s: %s", c.Path, strings.Join(c.Nameservers, ", "))
}

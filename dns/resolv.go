// Package dns computes a pod's resolver configuration, host name and /etc/hosts. It is pure:
// the host's resolver configuration is an argument.
package dns

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	netutils "k8s.io/utils/net"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/event"
)

// Config is the resolver configuration of a pod (CRI's DNSConfig).
type Config struct {
	Servers  []string `json:"servers,omitempty"`
	Searches []string `json:"searches,omitempty"`
	Options  []string `json:"options,omitempty"` // for example, ndots:5
}

// Warning is an event of type Warning that the caller must record for the pod.
type Warning struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// clusterOptions are the options of a pod that uses the cluster's DNS server. With ndots:5, the
// resolver tries the search domains first for names with fewer than five dots, such as the names of
// Services.
var clusterOptions = []string{"ndots:5"}

// New returns the pod's resolver configuration. The argument hostConf is the configuration of the
// host; clusterDNS and clusterDomain are settings of the node. If a pod requests the cluster's DNS
// server and none is configured, New returns the host's configuration and a warning.
func New(pod *corev1.Pod, hostConf host.ResolvConf, clusterDNS []string, clusterDomain string) (Config, []Warning) {
	var warnings []Warning
	policy := effectivePolicy(pod)
	if policy == corev1.DNSClusterFirst && len(clusterDNS) == 0 {
		warnings = append(warnings, missingClusterDNS(pod))
		policy = corev1.DNSDefault
	}

	var c Config
	switch policy {
	case corev1.DNSNone:
	case corev1.DNSDefault:
		c = ofHost(hostConf)
	default:
		c = Config{
			Servers:  canonical(clusterDNS),
			Searches: clusterSearches(pod.Namespace, clusterDomain, hostConf.Searches),
			Options:  slices.Clone(clusterOptions),
		}
	}
	if more := pod.Spec.DNSConfig; more != nil {
		c.Servers = unique(append(c.Servers, more.Nameservers...))
		c.Searches = unique(append(c.Searches, more.Searches...))
		c.Options = mergeOptions(c.Options, more.Options)
	}
	return limit(c, warnings)
}

// effectivePolicy returns None, Default or ClusterFirst. A pod in the host network uses the
// host's resolver unless its policy is ClusterFirstWithHostNet.
func effectivePolicy(pod *corev1.Pod) corev1.DNSPolicy {
	switch p := pod.Spec.DNSPolicy; {
	case p == corev1.DNSNone, p == corev1.DNSDefault:
		return p
	case p == corev1.DNSClusterFirst && pod.Spec.HostNetwork:
		return corev1.DNSDefault
	default:
		return corev1.DNSClusterFirst
	}
}

// UsesClusterDNS reports whether the cluster's DNS server resolves the names of a pod: only then does the
// pod get the names of Services.
func UsesClusterDNS(pod *corev1.Pod) bool { return effectivePolicy(pod) == corev1.DNSClusterFirst }

func missingClusterDNS(pod *corev1.Pod) Warning {
	return Warning{
		Reason: event.MissingClusterDNS,
		Message: fmt.Sprintf("pod: %q. No clusterDNS is configured, so podrun cannot apply the policy %q. Falling back to %q policy.",
			fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID), corev1.DNSClusterFirst, corev1.DNSDefault),
	}
}

// ofHost copies the host's configuration. If the setting resolvConf is "", the configuration is
// empty. However, ofHost still returns a nameserver, because otherwise the runtime would select a
// file for the pod. The nameserver is the local machine, which is the default of resolv.conf(5).
func ofHost(conf host.ResolvConf) Config {
	c := Config{
		Servers:  slices.Clone(conf.Nameservers),
		Searches: slices.Clone(conf.Searches),
		Options:  slices.Clone(conf.Options),
	}
	if conf.Path == "" && len(c.Servers) == 0 {
		c.Servers, c.Searches = []string{"127.0.0.1"}, []string{"."}
	}
	return c
}

func clusterSearches(namespace, domain string, hostSearches []string) []string {
	if domain == "" {
		return slices.Clone(hostSearches)
	}
	return unique(append([]string{namespace + ".svc." + domain, "svc." + domain, domain}, hostSearches...))
}

// canonical parses and formats addresses, as the kubelet does.
func canonical(servers []string) []string {
	out := make([]string, len(servers))
	for i, s := range servers {
		out[i] = s
		if ip := netutils.ParseIPSloppy(s); ip != nil {
			out[i] = ip.String()
		}
	}
	return out
}

// unique removes duplicates. It keeps the first occurrence.
func unique(in []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, s := range in {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

// mergeOptions replaces options in base with the pod's options of the same name. It appends the
// pod's other options.
func mergeOptions(base []string, more []corev1.PodDNSConfigOption) []string {
	var names []string
	text := map[string]string{}
	set := func(name, option string) {
		if _, have := text[name]; !have {
			names = append(names, name)
		}
		text[name] = option
	}
	for _, o := range base {
		name, _, _ := strings.Cut(o, ":")
		set(name, o)
	}
	for _, o := range more {
		option := o.Name
		if o.Value != nil && *o.Value != "" {
			option += ":" + *o.Value
		}
		set(o.Name, option)
	}
	var out []string
	for _, name := range names {
		out = append(out, text[name])
	}
	return out
}

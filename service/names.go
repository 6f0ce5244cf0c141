package service

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Name is one entry of the pods' hosts files.
type Name struct {
	IP netip.Addr `json:"ip"`
	// Name is the name of a Service, or HOSTNAME.SERVICE for a pod of a headless Service.
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// Names returns the names of the Services. Their order depends only on the content of the
// arguments. The second result contains the Services whose names exceed the limits, by Key, with the reasons;
// the names of the others are not affected.
func Names(services []*corev1.Service, pods []Pod) (names []Name, omitted map[string]string) {
	var out []Name
	omitted = map[string]string{}
	for _, s := range byAge(services) {
		switch of := namesOf(s, pods); {
		case len(of) > maxNamesOfOne:
			omitted[Key(s)] = fmt.Sprintf("has %d names and addresses in the hosts files of pods, but a Service may have at most %d", len(of), maxNamesOfOne)
		case len(out)+len(of) > maxNames:
			omitted[Key(s)] = fmt.Sprintf("has %d names and addresses in the hosts files of pods, but older Services have %d of the %d that podrun supports", len(of), len(out), maxNames)
		default:
			out = append(out, of...)
		}
	}
	slices.SortFunc(out, func(a, b Name) int {
		return strings.Compare(a.Namespace+"/"+a.Name+"/"+a.IP.StringExpanded(), b.Namespace+"/"+b.Name+"/"+b.IP.StringExpanded())
	})
	return slices.Compact(out), omitted
}

// namesOf returns the names of one Service.
func namesOf(s *corev1.Service, pods []Pod) (out []Name) {
	add := func(ip netip.Addr, name string) {
		out = append(out, Name{IP: ip, Name: name, Namespace: s.Namespace})
	}
	switch {
	case s.Spec.Type == corev1.ServiceTypeExternalName:
		if ip, err := netip.ParseAddr(s.Spec.ExternalName); err == nil {
			add(ip, s.Name)
		}
	case len(s.Spec.ClusterIPs) > 0 && !IsHeadless(s):
		for _, text := range s.Spec.ClusterIPs {
			if ip, err := netip.ParseAddr(text); err == nil {
				add(ip, s.Name)
			}
		}
	default:
		for _, p := range Selected(s, pods) {
			if !serves(s, p) {
				continue
			}
			for _, ip := range p.IPs {
				add(ip, s.Name)
				if IsHeadless(s) && p.Hostname != "" && p.Subdomain == s.Name {
					add(ip, p.Hostname+"."+s.Name)
				}
			}
		}
	}
	return out
}

// Domain returns the domain of Services: the setting clusterDomain or, if it is empty, Kubernetes'
// default. The configuration of programs in pods may contain names of Services even if the node has
// no clusterDomain.
func Domain(setting string) string { return cmp.Or(setting, "cluster.local") }

// HostsMark begins the section of a hosts file that Section returns.
const HostsMark = "\n# Services, written by podrun. Changes below this line are lost.\n"

// Section returns the section with the names of Services that podrun appends to base, a pod's hosts
// file without this section. It omits names that base defines: these take precedence in a cluster,
// too, because programs read the file before they query DNS. namespace is the pod's namespace; domain
// is the cluster domain, or "". The result is "" if there are no names.
func Section(base, namespace, domain string, names []Name) string {
	if len(names) == 0 {
		return ""
	}
	defined := map[string]bool{}
	for line := range strings.SplitSeq(base, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if fields := strings.Fields(line); len(fields) > 1 {
			for _, name := range fields[1:] {
				defined[strings.ToLower(name)] = true
			}
		}
	}
	var b strings.Builder
	for _, n := range names {
		qualified := n.Name + "." + n.Namespace
		all := []string{qualified + ".svc", qualified}
		if domain != "" {
			all = slices.Insert(all, 0, qualified+".svc."+domain)
		}
		if n.Namespace == namespace {
			all = append(all, n.Name)
		}
		all = slices.DeleteFunc(all, func(name string) bool { return defined[name] })
		if len(all) > 0 {
			fmt.Fprintf(&b, "%s\t%s\n", n.IP, strings.Join(all, "\t"))
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return HostsMark + b.String()
}

// Unforwarded describes the ports of Services that have no effect in a network that podrun does not
// own: there, a name resolves to the pods, so a port works only if it equals its targetPort.
func Unforwarded(s *corev1.Service, pods []Pod) (out []string) {
	if !HasVirtualIP(s) {
		return nil
	}
	selected := Selected(s, pods)
	for _, p := range s.Spec.Ports {
		same := len(selected) > 0 || p.TargetPort.StrVal == ""
		to := p.TargetPort.String()
		for _, pod := range append(selected, Pod{}) {
			if n, ok := pod.target(p); ok && n != uint16(p.Port) {
				same, to = false, fmt.Sprint(n)
			}
		}
		if !same {
			out = append(out, fmt.Sprintf("%d/%s (targetPort %s)", p.Port, protocolOf(p.Protocol), to))
		}
	}
	return out
}

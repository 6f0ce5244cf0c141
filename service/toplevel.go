package service

import (
	"slices"

	"golang.org/x/net/publicsuffix"
)

// privateDomains are top-level domains that no registry delegates, but in which hosts have names: RFC 6761,
// RFC 6762 and ICANN's decision of 2024 about internal.
var privateDomains = []string{"internal", "local", "localhost", "onion"}

// IsTopLevelDomain reports whether a namespace is named like a top-level domain: there, the name
// SERVICE.NAMESPACE of a Service may also be the name of a host outside the cluster. The domains are those
// of the Public Suffix List when podrun was built.
func IsTopLevelDomain(namespace string) bool {
	// Some rules, such as *.ck, have no entry for the domain itself.
	_, listed := publicsuffix.PublicSuffix("x." + namespace)
	return listed || slices.Contains(privateDomains, namespace)
}

package dns

import (
	"strings"

	"github.com/podrun/podrun/internal/event"
)

// Limits of a pod's resolver configuration (KEP-2595). glibc reads three nameservers. It aborts
// if a search path is longer than the maximum length of a name.
const (
	maxServers     = 3
	maxSearches    = 32
	maxSearchChars = 2048 // the maximum length of the search line: paths and the spaces between them
	maxPathChars   = 253  // the maximum length of one search path
)

// limit truncates the configuration to the limits. It adds at most one warning for servers and one
// for searches. The warnings have the kubelet's wording, because users may search for it.
func limit(c Config, warnings []Warning) (Config, []Warning) {
	if len(c.Servers) > maxServers {
		c.Servers = c.Servers[:maxServers]
		warnings = append(warnings, forming("Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: ", c.Servers))
	}
	fit := fitSearches(c.Searches)
	if len(fit) < len(c.Searches) {
		c.Searches = fit
		warnings = append(warnings, forming("Search Line limits were exceeded, some search paths have been omitted, the applied search line is: ", c.Searches))
	}
	return c, warnings
}

func forming(message string, line []string) Warning {
	return Warning{Reason: event.DNSConfigForming, Message: message + strings.Join(line, " ")}
}

// fitSearches returns as many of the first 32 paths as fit into the line, without paths that are
// too long.
func fitSearches(searches []string) []string {
	var fit []string
	// the first path is not preceded by a space
	line := -1
	for _, s := range searches[:min(len(searches), maxSearches)] {
		if len(s) > maxPathChars {
			continue
		}
		if line += 1 + len(s); line > maxSearchChars {
			break
		}
		fit = append(fit, s)
	}
	return fit
}

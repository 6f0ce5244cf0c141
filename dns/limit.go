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
	maxSearchChars = 2048 // the search line: paths and the spaces between them
	maxPathChars   = 253  // one search path
)

// limit truncates the configuration to the limits. It adds one warning for servers and one for
// searches. They have the kubelet's words, because users may search for them.
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

// fitSearches takes the first 32 paths and drops those that are too long. Of the others, it
// returns as many as fit into the line.
func fitSearches(searches []string) []string {
	var fit []string
	// There is no space before the first path.
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

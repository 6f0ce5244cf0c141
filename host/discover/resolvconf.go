package discover

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/podrun/podrun/host"
)

// readResolvConf reads the resolver configuration. An empty path means none, as in the kubelet.
// If the file does not exist, it is treated as empty (resolv.conf(5)).
func (m machine) readResolvConf(path string) (host.ResolvConf, error) {
	if path == "" {
		return host.ResolvConf{}, nil
	}
	data, err := m.read(maxConfig, path)
	if os.IsNotExist(err) {
		return host.ResolvConf{Path: path}, nil
	}
	if err != nil {
		return host.ResolvConf{}, factError("read the resolver's configuration", err, "set another file with --resolv-conf")
	}
	conf, err := parseResolvConf(string(data))
	if err != nil {
		return host.ResolvConf{}, factError("read "+path, err, "correct it, or set another file with --resolv-conf")
	}
	conf.Path = path
	if path == resolvConf && slices.Contains(conf.Nameservers, resolvedStub) && m.exists(resolvedFile) {
		return m.readResolvConf("/" + resolvedFile)
	}
	return conf, nil
}

// parseResolvConf parses resolv.conf(5) as the kubelet does. All nameserver lines apply, but only
// the last search line does. Options accumulate, and a later option replaces an earlier one with
// the same name.
func parseResolvConf(text string) (host.ResolvConf, error) {
	var conf host.ResolvConf
	n := 0
	for line := range strings.Lines(text) {
		n++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") || strings.HasPrefix(fields[0], ";") {
			continue
		}
		switch fields[0] {
		case "nameserver":
			if len(fields) < 2 {
				return conf, fmt.Errorf("line %d: nameserver without an address", n)
			}
			conf.Nameservers = append(conf.Nameservers, fields[1])
		case "search":
			conf.Searches = nil
			for _, s := range fields[1:] {
				if s != "." {
					conf.Searches = append(conf.Searches, strings.TrimSuffix(s, "."))
				}
			}
		case "options":
			conf.Options = append(conf.Options, fields[1:]...)
		}
	}
	conf.Options = latestOptions(conf.Options)
	return conf, nil
}

// latestOptions removes each option if a later one has the same name: ndots:5 replaces ndots:2. It
// is fast even for a million options.
func latestOptions(options []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, o := range slices.Backward(options) {
		if name, _, _ := strings.Cut(o, ":"); !seen[name] {
			seen[name] = true
			out = append(out, o)
		}
	}
	slices.Reverse(out)
	return out
}

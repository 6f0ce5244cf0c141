package config

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// pathFlags are the global flags whose values are paths on this host.
var pathFlags = []string{"config", "root-dir", "pod-logs-dir", "container-logs-dir", "resolv-conf", "registry-auth",
	"image-credential-provider-config", "image-credential-provider-bin-dir"}

// Arguments converts flags to arguments of the service. Relative paths become
// absolute, because the service has another working directory.
func Arguments(given []*pflag.Flag) []string {
	var out []string
	for _, flag := range given {
		value := flag.Value.String()
		switch flag.Value.Type() {
		case "stringSlice", "stringToString": // pflag writes [a,b]
			value = strings.TrimSuffix(strings.TrimPrefix(value, "["), "]")
		}
		if value != "" && slices.Contains(pathFlags, flag.Name) {
			if dir, err := filepath.Abs(value); err == nil {
				value = dir
			}
		}
		out = append(out, "--"+flag.Name+"="+value)
	}
	return out
}

package imagepull

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/podrun/podrun/internal/hostfile"
)

// registriesConf is CRI-O's configuration of registries, in addition to the files
// *.conf in the directory of the same name with .d.
const registriesConf = "/etc/containers/registries.conf"

// Bounds of that configuration.
const (
	maxRegistriesFile  = 1 << 20 // bytes
	maxRegistriesFiles = 100
)

// readRedirects reports whether the host's configuration of registries, conf and the
// files of its directory, may redirect pulls; a file that cannot be read counts as yes.
func readRedirects(ctx context.Context, conf string) bool {
	more, err := filepath.Glob(conf + ".d/*.conf")
	if err != nil || len(more) >= maxRegistriesFiles {
		return true
	}
	for _, name := range append(more, conf) {
		data, err := hostfile.Read(ctx, name, maxRegistriesFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) || redirects(string(data)) {
			return true
		}
	}
	return false
}

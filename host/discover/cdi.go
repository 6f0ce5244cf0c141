package discover

import (
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/podrun/podrun/host"
)

// cdiDirs are the default directories of device specifications (CNCF Container Device
// Interface). podrun uses them if the runtime reports none.
var cdiDirs = []string{"/etc/cdi", "/var/run/cdi"}

// readCDI lists the devices of all specifications. It ignores files that it cannot read, as
// runtimes do.
func (m machine) readCDI(dirs []string) *host.CDI {
	if len(dirs) == 0 {
		dirs = cdiDirs
	}
	out := &host.CDI{Dirs: dirs, Devices: []string{}}
	for _, dir := range dirs {
		entries, err := os.ReadDir(m.path(dir))
		if err != nil {
			// Most hosts do not have these directories.
			continue
		}
		for _, e := range entries {
			if ext := filepath.Ext(e.Name()); ext != ".json" && ext != ".yaml" {
				continue
			}
			data, err := m.read(maxConfig, dir, e.Name())
			var spec struct {
				Kind    string
				Devices []struct{ Name string }
			}
			if err != nil || yaml.Unmarshal(data, &spec) != nil {
				continue
			}
			for _, d := range spec.Devices {
				out.Devices = append(out.Devices, spec.Kind+"="+d.Name)
			}
		}
	}
	slices.Sort(out.Devices)
	return out
}

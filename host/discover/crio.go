package discover

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/resource"
)

// Limits on CRI-O's configuration.
const (
	maxCRIOFile  = 1 << 20 // bytes
	maxCRIOFiles = 100     // files, including those in the directory
	// entries in the directory, including its subdirectories
	maxCRIOEntries = 1000
)

// The default paths of CRI-O's configuration (pkg/config/config_unix.go).
const (
	crioFile = "/etc/crio/crio.conf"
	crioDir  = "/etc/crio/crio.conf.d"
)

// CRI-O's default directories of networks and plugins.
const (
	crioNetworkDir = "/etc/cni/net.d"
	crioPluginDir  = "/opt/cni/bin"
)

// crioConfig is the part of CRI-O's configuration that concerns pods. The zero value of a field
// means that the value is not configured, or is unknown.
type crioConfig struct {
	files          []string
	problem        string // why podrun cannot read a file
	pauseImage     string
	defaultRuntime string
	networkDir     string
	pluginDirs     []string
	cdiSpecDirs    []string
	ulimits        []string
	minMemory      map[string]string // by runtime handler: 12MiB
}

// addCRIO completes CRI-O's CRI status with data from its verbose status (1.32 and later) and from
// its configuration files. If the files have changed, the result may include changes that CRI-O has
// not loaded yet, because the CRI does not show which files CRI-O has loaded.
func (m crio) addCRIO(r *host.Runtime, endpoint, verbose string) {
	file, dir := crioFile, crioDir
	if pid, err := cri.ServerPID(m.ctx, endpoint); err == nil && pid > 0 {
		if line, err := m.read(maxProcFile, "proc", strconv.Itoa(pid), "cmdline"); err == nil {
			file, dir = crioFlags(strings.Split(string(line), "\x00"), file, dir)
		}
	}
	c := m.readCRIO(file, dir)
	c.override(verbose)
	r.ConfigFiles, r.ConfigProblem, r.Ulimits = c.files, c.problem, c.ulimits
	r.SandboxImg = cmp.Or(r.SandboxImg, c.pauseImage)
	// If there are no files, CRI-O may have its configuration in another place.
	if len(c.files) > 0 {
		c.networkDir = cmp.Or(c.networkDir, crioNetworkDir)
		if len(c.pluginDirs) == 0 {
			c.pluginDirs = []string{crioPluginDir}
		}
	}
	r.CNIConfDir, r.CNIBinDirs = c.networkDir, c.pluginDirs
	if len(c.cdiSpecDirs) > 0 {
		r.CDIDirs = c.cdiSpecDirs
	}
	r.MinMemory = c.limits()
}

// crioFlags returns the paths of the configuration file and the configuration directory on a
// command line. If there are none, it returns the given defaults.
func crioFlags(args []string, file, dir string) (string, string) {
	for i, arg := range args {
		name, value, inOne := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !strings.HasPrefix(arg, "-") {
			continue
		}
		if !inOne && i+1 < len(args) {
			value = args[i+1]
		}
		switch name {
		case "config", "c":
			file = value
		case "config-dir", "d":
			dir = value
		}
	}
	return file, dir
}

// readCRIO reads a configuration: first the file, and then the files of the directory by name.
// Each file overrides individual keys. It ignores paths that are not absolute, such as "".
func (m crio) readCRIO(file, dir string) crioConfig {
	var c crioConfig
	files := m.below(dir)
	if filepath.IsAbs(file) {
		files = append([]string{file}, files...)
	}
	for _, name := range files[:min(len(files), maxCRIOFiles)] {
		data, err := m.read(maxCRIOFile, name)
		if err != nil {
			if !m.exists(name) {
				continue
			}
			c.problem = name + ": " + err.Error()
			continue
		}
		var values crioValues
		if err := toml.Unmarshal(data, &values); err != nil {
			c.problem = name + ": " + tomlProblem(err)
		}
		c.files = append(c.files, name)
		// After an error, apply the keys before it.
		c.take(values)
	}
	return c
}

// below lists the files in a directory and its subdirectories, by name.
func (m crio) below(dir string) (files []string) {
	if !filepath.IsAbs(dir) {
		return nil
	}
	root, seen := m.path(dir), 0
	// The walk ignores directories that it cannot read, because CRI-O would not start with them.
	_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if seen++; seen > maxCRIOEntries || m.ctx.Err() != nil {
			return fs.SkipAll
		}
		if err != nil || e.IsDir() {
			return nil
		}
		if name, err := filepath.Rel(root, path); err == nil {
			files = append(files, filepath.Join(dir, name))
		}
		return nil
	})
	return files
}

// crioValues are the keys of one file that concern pods. If a key is missing, its value is nil.
type crioValues struct {
	CRIO struct {
		Image struct {
			PauseImage *string `toml:"pause_image"`
		} `toml:"image"`
		Network struct {
			NetworkDir *string  `toml:"network_dir"`
			PluginDirs []string `toml:"plugin_dirs"`
		} `toml:"network"`
		Runtime struct {
			DefaultRuntime *string  `toml:"default_runtime"`
			CDISpecDirs    []string `toml:"cdi_spec_dirs"`
			DefaultUlimits []string `toml:"default_ulimits"`
			Runtimes       map[string]struct {
				ContainerMinMemory *string `toml:"container_min_memory"`
			} `toml:"runtimes"`
		} `toml:"runtime"`
	} `toml:"crio"`
}

// tomlProblem returns the text of an error, with the line of the error.
func tomlProblem(err error) string {
	if at, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, _ := at.Position()
		return fmt.Sprintf("line %d: %s", line, strings.TrimPrefix(at.Error(), "toml: "))
	}
	return err.Error()
}

// take overrides the configuration with the keys of one file.
func (c *crioConfig) take(values crioValues) {
	image, network, run := values.CRIO.Image, values.CRIO.Network, values.CRIO.Runtime
	for to, v := range map[*string]*string{&c.pauseImage: image.PauseImage, &c.networkDir: network.NetworkDir, &c.defaultRuntime: run.DefaultRuntime} {
		if v != nil {
			*to = *v
		}
	}
	for to, v := range map[*[]string][]string{&c.pluginDirs: network.PluginDirs, &c.cdiSpecDirs: run.CDISpecDirs, &c.ulimits: run.DefaultUlimits} {
		if v != nil {
			*to = v
		}
	}
	for handler, r := range run.Runtimes {
		if r.ContainerMinMemory != nil {
			c.setMinMemory(handler, *r.ContainerMinMemory)
		}
	}
}

func (c *crioConfig) setMinMemory(handler, size string) {
	if c.minMemory == nil {
		c.minMemory = map[string]string{}
	}
	c.minMemory[handler] = size
}

// override applies the configuration that CRI-O's verbose status contains
// (server/runtime_status.go). The keys of that configuration are the names of CRI-O's Go fields.
func (c *crioConfig) override(verbose string) {
	var v struct {
		CRIO struct {
			DefaultRuntime              string
			CDISpecDirs, DefaultUlimits []string
			Runtimes                    map[string]struct{ ContainerMinMemory string }
		} `json:"crio"`
	}
	if json.Unmarshal([]byte(verbose), &v) != nil {
		return
	}
	c.defaultRuntime = cmp.Or(v.CRIO.DefaultRuntime, c.defaultRuntime)
	if v.CRIO.CDISpecDirs != nil {
		c.cdiSpecDirs = v.CRIO.CDISpecDirs
	}
	if v.CRIO.DefaultUlimits != nil {
		c.ulimits = v.CRIO.DefaultUlimits
	}
	for handler, r := range v.CRIO.Runtimes {
		if r.ContainerMinMemory != "" {
			c.setMinMemory(handler, r.ContainerMinMemory)
		}
	}
}

// limits returns the minimum memory limits of containers in bytes, by handler; "" is the default
// handler. They do not include CRI-O's built-in minimum, which depends on its version.
func (c *crioConfig) limits() map[string]int64 {
	out := map[string]int64{}
	for handler, size := range c.minMemory {
		if n, ok := ramInBytes(size); ok && n > 0 {
			out[handler] = n
		}
	}
	if n, known := out[c.defaultRuntime]; known {
		out[""] = n
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// ramInBytes parses a size as CRI-O does (github.com/docker/go-units, RAMInBytes): all
// units are powers of 1024.
func ramInBytes(size string) (int64, bool) {
	number := strings.TrimRight(size, "bBiIkKmMgGtT ")
	unit := strings.TrimSpace(strings.ToLower(size[len(number):]))
	suffix, known := map[string]string{"": "", "b": "", "k": "Ki", "m": "Mi", "g": "Gi", "t": "Ti"}[strings.TrimSuffix(strings.TrimSuffix(unit, "b"), "i")]
	q, err := resource.ParseQuantity(number + suffix)
	if !known || err != nil || q.Sign() < 0 || slices.Contains([]string{"i", "ib"}, unit) {
		return 0, false
	}
	return q.Value(), true
}

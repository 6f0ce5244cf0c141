package discover

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/cniplugin"
)

// cni reads the network configuration as a runtime does: it uses the directory's first file by
// name.
func (m networkConfig) cni(r host.Runtime) host.CNI {
	c := host.CNI{ConfDir: r.NetworkDir(), BinDirs: r.CNIBinDirs}
	if len(c.BinDirs) == 0 {
		c.BinDirs = []string{"/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni"}
	}
	c.BridgeInstalled = m.inAny(c.BinDirs, "bridge")
	entries, err := os.ReadDir(m.path(c.ConfDir))
	if err != nil {
		return c
	}
	for _, e := range entries { // sorted
		if slices.Contains([]string{".conf", ".conflist", ".json"}, filepath.Ext(e.Name())) {
			c.Config = filepath.Join(c.ConfDir, e.Name())
			break
		}
	}
	if c.Config != "" {
		if err := m.readCNI(&c); err != nil {
			c.Problem = err.Error()
		}
	}
	return c
}

// readCNI reads the names of the plugins in a network configuration.
func (m networkConfig) readCNI(c *host.CNI) error {
	data, err := m.read(maxConfig, c.Config)
	if err != nil {
		return err
	}
	type plugin struct {
		Type string
		IPAM struct{ Type string }
	}
	var conf struct {
		Name    string
		Plugins []plugin
		plugin
	}
	if err := json.Unmarshal(data, &conf); err != nil {
		return fmt.Errorf("not a CNI configuration: %w", err)
	}
	c.Network = conf.Name
	for _, p := range append(conf.Plugins, conf.plugin) {
		if p.Type == cniplugin.Own {
			p.IPAM.Type = ""
		}
		for _, name := range []string{p.Type, p.IPAM.Type} {
			if name != "" && !slices.Contains(c.Plugins, name) {
				c.Plugins = append(c.Plugins, name)
			}
		}
	}
	if len(c.Plugins) == 0 {
		return fmt.Errorf("it has no plugins")
	}
	for _, name := range c.Plugins {
		if !m.inAny(c.BinDirs, name) {
			c.Missing = append(c.Missing, name)
		}
	}
	return nil
}

func (m networkConfig) inAny(dirs []string, name string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return m.exists(filepath.Join(dir, name)) })
}

package cni

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/podrun/podrun/internal/cniplugin"
	"github.com/podrun/podrun/internal/hostfile"
)

// The paths of podrun's own runtime below a root directory (embedded.Layout): the plugin that creates the rules,
// which is in each unpacked archive, and the directory in which host-local stores allocated addresses.
const (
	ownRuntime = "runtime"
	ownPlugin  = "cni/" + cniplugin.Own
	ownLeases  = "runtime/cni/addresses"
)

// ownPlugins returns the paths of podrun's own plugin in all unpacked archives of a root directory.
func ownPlugins(rootDir string) ([]string, error) {
	archives, err := hostfile.Entries(filepath.Join(rootDir, ownRuntime), "", "")
	var plugins []string
	for _, dir := range archives {
		path := filepath.Join(dir, ownPlugin)
		if _, err := os.Lstat(path); err == nil {
			plugins = append(plugins, path)
		}
	}
	return plugins, err
}

// ownInterface is the name that containerd gives to the interface of a sandbox.
const ownInterface = "eth0"

// ownConfig is a network configuration with all fields that the plugin reads for DEL. DEL finds the
// rules of a sandbox by the sandbox's ID.
const ownConfig = `{"cniVersion":"1.0.0","name":"podrun","type":"` + cniplugin.Own + `"}`

// removeOwn removes the rules that podrun's own plugin created for sandboxes. It calls the plugin,
// because the host may not have a program for nftables.
func removeOwn(ctx context.Context, rootDir string, sandboxes []string) error {
	plugin, err := ownPluginOf(rootDir)
	if errors.Is(err, errNoPlugin) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range sandboxes {
		if err := cniplugin.Exec(ctx, plugin, "DEL", []byte(ownConfig), "CNI_CONTAINERID="+id, "CNI_IFNAME="+ownInterface); err != nil {
			errs = append(errs, fmt.Errorf("remove the firewall rules of sandbox %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

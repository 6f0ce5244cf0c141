package cni

import (
	"context"
	"errors"
	"fmt"
)

// Of podrun's own runtime, below a root directory (embedded.Layout): the plugin that
// makes its rules, in each archive that is unpacked, and where host-local keeps which
// addresses are in use.
const (
	ownPlugin = "runtime/*/cni/" + ownType
	ownLeases = "runtime/cni/addresses/*"
)

// ownInterface is what containerd calls the interface of a sandbox.
const ownInterface = "eth0"

// ownConfig is all that the plugin's DEL reads: it finds a sandbox's rules by its ID.
const ownConfig = `{"cniVersion":"1.0.0","name":"podrun","type":"` + ownType + `"}`

// removeOwn removes the rules that podrun's own plugin made of sandboxes. It is the
// plugin that does so, as the host may have no program that knows nftables.
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
		if err := callOwn(ctx, plugin, "DEL", []byte(ownConfig), "CNI_CONTAINERID="+id, "CNI_IFNAME="+ownInterface); err != nil {
			errs = append(errs, fmt.Errorf("remove the firewall rules of sandbox %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

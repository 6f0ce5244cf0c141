package cni

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Of podrun's own runtime, below a root directory (embedded.Layout): the plugin that
// makes its rules, in each archive that is unpacked, and where host-local keeps which
// addresses are in use.
const (
	ownPlugin = "runtime/*/cni/podrun-net"
	ownLeases = "runtime/cni/addresses/*"
)

// ownInterface is what containerd calls the interface of a sandbox.
const ownInterface = "eth0"

// ownConfig is all that the plugin's DEL reads: it finds a sandbox's rules by its ID.
const ownConfig = `{"cniVersion":"1.0.0","name":"podrun","type":"podrun-net"}`

// removeOwn removes the rules that podrun's own plugin made of sandboxes. It is the
// plugin that does so, as the host may have no program that knows nftables.
func removeOwn(ctx context.Context, rootDir string, sandboxes []string) error {
	plugins, err := filepath.Glob(filepath.Join(rootDir, ownPlugin))
	if err != nil || len(plugins) == 0 {
		return err // a root directory that never had a runtime of its own
	}
	plugin := plugins[len(plugins)-1] // the format of the rules is every one's
	var errs []error
	for _, id := range sandboxes {
		errs = append(errs, callOwn(ctx, plugin, id))
	}
	return errors.Join(errs...)
}

// callOwn runs the plugin as a runtime does (CNI specification, section 2).
func callOwn(ctx context.Context, plugin, sandbox string) error {
	ctx, cancel := context.WithTimeout(ctx, firewallLimit)
	defer cancel()
	c := exec.CommandContext(ctx, plugin)
	c.Env = []string{"CNI_COMMAND=DEL", "CNI_CONTAINERID=" + sandbox, "CNI_IFNAME=" + ownInterface, "CNI_PATH=" + filepath.Dir(plugin)}
	c.Stdin = strings.NewReader(ownConfig)
	var out bytes.Buffer
	c.Stdout = &out
	if err := c.Run(); err != nil {
		return fmt.Errorf("remove the firewall rules of sandbox %s: %s: %w: %s", sandbox, plugin, err, strings.TrimSpace(out.String()))
	}
	return nil
}

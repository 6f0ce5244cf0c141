package cni

import (
	"context"
	"errors"
	"fmt"

	"github.com/podrun/podrun/internal/cniplugin"
)

// Restore restores the rules of a network of podrun's own plugin, for the runtime below rootDir.
// Another program may remove them: nft flush ruleset, a restart of a firewall, or iptables-restore.
// The runtime calls plugins only when it creates or removes a sandbox, so running pods would remain
// without a network. Restore returns the number of sandboxes whose rules were missing.
func Restore(ctx context.Context, rootDir, network string) (int, error) {
	return restore(ctx, rootDir, ResultsDir, network)
}

func restore(ctx context.Context, rootDir, results, network string) (int, error) {
	attachments, err := readOwn(ctx, results, network)
	if err != nil || len(attachments) == 0 {
		return 0, err
	}
	rules, err := readOwnRules(attachments[0].bridge)
	if err != nil {
		return 0, err
	}
	n := 0
	var errs []error
	for _, a := range attachments {
		if !rules.lacks(a) {
			continue
		}
		plugin, err := ownPluginOf(rootDir)
		if err == nil {
			err = cniplugin.Exec(ctx, plugin, "ADD", a.stdin, "CNI_CONTAINERID="+a.sandbox, "CNI_IFNAME="+a.ifName, "CNI_NETNS="+a.netns)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("restore the firewall rules of sandbox %s: %w", a.sandbox, err))
			continue
		}
		n++
	}
	return n, errors.Join(errs...)
}

// errNoPlugin means that a root directory does not have an embedded runtime.
var errNoPlugin = errors.New("no " + cniplugin.Own + " is unpacked")

// ownPluginOf finds podrun-net in any unpacked version, because all versions have the same format
// of rules.
func ownPluginOf(rootDir string) (string, error) {
	plugins, err := ownPlugins(rootDir)
	if err != nil {
		return "", err
	}
	if len(plugins) == 0 {
		return "", errNoPlugin
	}
	return plugins[len(plugins)-1], nil
}

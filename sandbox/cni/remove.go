package cni

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/podnetns"
)

// firewallLimit limits the time of each call of a firewall program. Such a program waits for a
// lock while other programs change rules.
const firewallLimit = 20 * time.Second

// maxRules limits the output of iptables-save, in bytes.
const maxRules = 64 << 20

// Remove removes the leftovers of network plugins for removed sandboxes: rules and chains,
// allocated addresses, and attachments. The argument sandboxes contains the sandboxes that have no
// known attachment. The embedded runtime, if there is one, is below rootDir. Remove continues after
// errors, and can be repeated.
func Remove(ctx context.Context, rootDir string, attachments []Attachment, sandboxes []string) error {
	sandboxes = slices.Clone(sandboxes)
	for _, a := range attachments {
		sandboxes = append(sandboxes, a.Sandbox)
	}
	sandboxes = slices.DeleteFunc(sandboxes, func(id string) bool { return !ids().MatchString(id) })
	if len(sandboxes) == 0 {
		return nil
	}
	errs := []error{removeOwn(ctx, rootDir, sandboxes)}
	if !podnetns.Separate() { // an ordinary user has no rules in the host's network
		errs = append(errs, removeRules(ctx, "iptables", attachments, sandboxes), removeRules(ctx, "ip6tables", attachments, sandboxes), removeNft(ctx, sandboxes))
	}
	var dirs []string
	for _, leases := range []string{defaultLeases, filepath.Join(rootDir, ownLeases)} {
		found, err := hostfile.Entries(leases, "", "")
		dirs, errs = append(dirs, found...), append(errs, err)
	}
	for _, a := range attachments {
		dirs = append(dirs, a.LeaseDirs...)
	}
	slices.Sort(dirs)
	for _, dir := range slices.Compact(dirs) {
		errs = append(errs, removeLeases(ctx, dir, sandboxes))
	}
	for _, a := range attachments {
		if err := os.Remove(a.File); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// removeRules removes the iptables rules of sandboxes. The argument program is iptables or
// ip6tables. If the host does not have the program, there are no such rules, because the plugins
// also use it.
func removeRules(ctx context.Context, program string, attachments []Attachment, sandboxes []string) error {
	save, err := exec.LookPath(program + "-save")
	if err != nil {
		return nil
	}
	restore, err := exec.LookPath(program + "-restore")
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, firewallLimit)
	defer cancel()
	saved, err := exec.CommandContext(ctx, save).Output()
	if err != nil || len(saved) > maxRules {
		// The kernel does not support the tables, so there are no rules.
		return nil
	}
	script := removal(saved, attachments, sandboxes)
	if len(script) == 0 {
		return nil
	}
	c := exec.CommandContext(ctx, restore, "--noflush", "--wait")
	c.Stdin = bytes.NewReader(script)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("remove the %s rules of removed sandboxes: %w: %s", program, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// maxLease limits the size of a lease, in bytes. A lease has an ID and the name of an
// interface.
const maxLease = 4 << 10

// removeLeases removes the files in which host-local records the addresses of sandboxes. The
// name of each file is the address, and its first line is the ID.
func removeLeases(ctx context.Context, dir string, sandboxes []string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		// The plugin host-local is not used, or its files are elsewhere.
		return nil
	}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		data, err := hostfile.ReadNoFollow(ctx, path, maxLease)
		if err != nil {
			continue
		}
		holder, _, _ := strings.Cut(strings.TrimSpace(string(data)), "\n")
		if !slices.Contains(sandboxes, strings.TrimSpace(holder)) {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

package cni

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/cniplugin"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/podnetns"
)

// OwnNetwork is the network of the embedded runtime, if podrun-net is its only plugin.
type OwnNetwork struct {
	Plugin string // path of the plugin
	Config string // path of the configuration that containerd reads
}

// ownList is a network configuration list.
type ownList struct {
	Name    string                       `json:"name"`
	Plugins []map[string]json.RawMessage `json:"plugins"`
}

// Unused returns the IDs of sandboxes for which the network has an address or a rule, although the
// runtime does not have these sandboxes. They remain if the plugin is killed, or if containerd is
// killed while it creates a sandbox. The argument sandboxes contains all sandboxes of the runtime.
//
// containerd lists a sandbox only after its network is set up. Unused therefore omits sandboxes
// whose interface on the host exists: ADD creates it before everything else, and DEL removes it
// first. Unused therefore needs no lock, and the order in which it reads the state does not matter.
func (n OwnNetwork) Unused(ctx context.Context, sandboxes []string) ([]string, error) {
	list, at, err := n.read(ctx)
	if err != nil || at < 0 {
		return nil, err
	}
	var ipam struct {
		DataDir string `json:"dataDir"`
	}
	var bridge string
	if err := errors.Join(json.Unmarshal(list.Plugins[at]["ipam"], &ipam), json.Unmarshal(list.Plugins[at]["bridge"], &bridge)); err != nil {
		return nil, fmt.Errorf("%s: %w", n.Config, err)
	}
	held, err := readHolders(ctx, filepath.Join(ipam.DataDir, list.Name))
	if err != nil {
		return nil, err
	}
	for _, family := range []uint8{unix.NFPROTO_IPV4, unix.NFPROTO_IPV6} {
		comments, err := readComments(family, cniplugin.Own+"-"+bridge, "postrouting")
		if err != nil {
			return nil, err
		}
		for _, c := range comments {
			if id, _, ok := strings.Cut(c, "/"); ok {
				held = append(held, id)
			}
		}
	}
	slices.Sort(held)
	return slices.DeleteFunc(slices.Compact(held), func(id string) bool {
		return !ids().MatchString(id) || slices.Contains(sandboxes, id) || hasLink(linkName(id+"/"+ownInterface))
	}), nil
}

// Collect removes the addresses and rules of the sandboxes that Unused returns, with the
// plugin's garbage collection (CNI 1.1, GC), which containerd never calls.
func (n OwnNetwork) Collect(ctx context.Context, sandboxes []string) error {
	list, at, err := n.read(ctx)
	if err != nil || at < 0 {
		return err
	}
	valid := []map[string]string{}
	for _, id := range sandboxes {
		valid = append(valid, map[string]string{"containerID": id, "ifname": ownInterface})
	}
	input := map[string]any{"cni.dev/valid-attachments": valid, "podrun.dev/only-unused": true}
	for key, value := range list.Plugins[at] {
		input[key] = value
	}
	input["name"], input["cniVersion"] = list.Name, "1.1.0"
	stdin, err := json.Marshal(input)
	if err != nil {
		return err
	}
	if err := cniplugin.Exec(ctx, n.Plugin, "GC", stdin); err != nil {
		return fmt.Errorf("remove unused addresses and firewall rules: %w", err)
	}
	return nil
}

// read returns the network's configuration and the index of the plugin. The index is -1 if there is
// no network yet, or if the plugin is not the only one.
func (n OwnNetwork) read(ctx context.Context) (ownList, int, error) {
	var list ownList
	data, err := hostfile.ReadNoFollow(ctx, n.Config, maxResult)
	if errors.Is(err, fs.ErrNotExist) {
		return list, -1, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err != nil {
		return list, -1, fmt.Errorf("read the network's configuration: %w", err)
	}
	at := slices.IndexFunc(list.Plugins, func(p map[string]json.RawMessage) bool {
		return string(p["type"]) == `"`+cniplugin.Own+`"` && len(p["ipam"]) > 0
	})
	return list, at, nil
}

// readHolders returns the IDs of the sandboxes that hold addresses, from the files in dir.
func readHolders(ctx context.Context, dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the addresses of pods: %w", err)
	}
	var out []string
	for _, e := range entries {
		if _, err := netip.ParseAddr(e.Name()); err != nil {
			continue
		}
		data, err := hostfile.ReadNoFollow(ctx, filepath.Join(dir, e.Name()), maxLease)
		if err != nil {
			continue // the address was released after it was listed
		}
		id, _, _ := strings.Cut(strings.TrimSpace(string(data)), "\n")
		out = append(out, strings.TrimSpace(id))
	}
	return out, nil
}

// linkName returns the name of an attachment's interface on the host
// (embedded/bundle/podrun-net, vethName).
func linkName(comment string) string {
	sum := sha256.Sum256([]byte(comment))
	return "veth" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:11]
}

// hasLink reports whether an interface exists. If the state is unknown, it returns true.
func hasLink(name string) bool {
	_, err := podnetns.Call(func() (netlink.Link, error) { return netlink.LinkByName(name) })
	_, missing := err.(netlink.LinkNotFoundError)
	return !missing
}

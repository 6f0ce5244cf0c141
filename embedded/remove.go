package embedded

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/safepath"
	"github.com/podrun/podrun/internal/wait"
)

// End ends containerd, the shims, and the containers that these have started. It is called
// with the layout's lock held.
func End(ctx context.Context, l Layout) error {
	return errors.Join(Stop(ctx, l, ReadDaemon(ctx, l)), stopStrays(ctx, l))
}

// Remove removes the runtime and all that it made on this host. It is called with the
// layout's lock held, once no pod is left; cgroupRoot is --cgroup-root. It does all it
// can and can be called again: the error joins what is left.
func Remove(ctx context.Context, l Layout, cgroupRoot string) error {
	digests, err := UnpackedDigests(l)
	if err := errors.Join(err, End(ctx, l)); err != nil {
		return err // what runs would make again what is removed
	}
	var errs []error
	errs = append(errs, removeRules(ctx, l, digests), removeBridge(l))
	for _, dir := range []string{l.State(), l.Dir()} {
		errs = append(errs, unmountBelow(ctx, dir))
	}
	errs = append(errs, removeCgroups(ctx, l, cgroupRoot), removeResults(l))
	if errors.Join(errs...) != nil {
		return errors.Join(errs...) // its files are how the rest is found again
	}
	for _, dir := range []string{l.State(), l.Dir()} {
		errs = append(errs, removeTree(ctx, dir))
	}
	for _, dir := range []string{filepath.Dir(l.State()), "/run/containerd/s", "/run/containerd"} {
		removeEmpty(dir)
	}
	return errors.Join(errs...)
}

// removeEmpty removes a directory that others share, if nothing is in it.
func removeEmpty(dir string) { _ = unix.Rmdir(dir) }

// stopStrays ends what the programs of the runtime still run, a containerd without a
// record and shims, and what these run.
func stopStrays(ctx context.Context, l Layout) error {
	var errs []error
	for range 3 { // a shim may have been starting another process
		running, err := readRunning(l)
		if err != nil {
			return err
		}
		if len(running) == 0 {
			return nil
		}
		errs = nil
		for _, p := range running {
			if err := endProcess(ctx, p.PID, p.Alive, 0); err != nil {
				errs = append(errs, fmt.Errorf("end process %d: %w", p.PID, err))
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return errors.Join(errs...)
}

// unmountBelow unmounts what is below a directory: root file systems, network
// namespaces, shared memory. The path is real: podrun made it.
func unmountBelow(ctx context.Context, dir string) error {
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	base := filepath.Dir(real)
	root, err := unix.Open(base, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", base, err)
	}
	defer unix.Close(root)
	return safepath.UnmountBelow(ctx, root, base, real)
}

// removeTree removes a directory, and nothing through a mount or a symbolic link.
func removeTree(ctx context.Context, dir string) error {
	parent, err := unix.Open(filepath.Dir(dir), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", filepath.Dir(dir), err)
	}
	defer unix.Close(parent)
	if err := safepath.Remove(ctx, parent, filepath.Base(dir)); err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return nil
}

// removeRules removes the packet filter rules of the network, by the plugin that made
// them: its garbage collection (CNI 1.1) without any valid attachment.
func removeRules(ctx context.Context, l Layout, digests []string) error {
	if _, err := os.Stat(l.NetworkFile()); errors.Is(err, fs.ErrNotExist) {
		return nil // no pod had a network yet
	}
	config, err := json.Marshal(map[string]any{"cniVersion": "1.1.0", "name": l.Bridge(), "type": netPlugin, "bridge": l.Bridge(), "cni.dev/valid-attachments": []any{}})
	if err != nil {
		return err
	}
	for _, digest := range digests {
		dir := filepath.Join(l.Unpacked(digest), "cni")
		if _, err := os.Stat(filepath.Join(dir, netPlugin)); err != nil {
			continue // half removed by an earlier call
		}
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		c := exec.CommandContext(ctx, filepath.Join(dir, netPlugin))
		c.Env = []string{"CNI_COMMAND=GC", "CNI_PATH=" + dir}
		c.Stdin = bytes.NewReader(config)
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("remove the nftables rules of %s: %w: %.500s", l.Bridge(), err, strings.TrimSpace(string(out)))
		}
		return nil
	}
	return nil
}

// removeBridge removes the network interface of the pods, if it is a bridge.
func removeBridge(l Layout) error {
	link, err := netlink.LinkByName(l.Bridge())
	if _, missing := err.(netlink.LinkNotFoundError); missing {
		return nil
	}
	if err == nil && link.Type() == "bridge" {
		err = netlink.LinkDel(link)
	}
	if err != nil {
		return fmt.Errorf("remove the bridge %s: %w", l.Bridge(), err)
	}
	return nil
}

// removeResults removes what libcni has cached of the network's attachments, and its
// directories if they are empty.
func removeResults(l Layout) error {
	cached, err := filepath.Glob("/var/lib/cni/results/" + l.Bridge() + "-*")
	for _, path := range cached {
		err = errors.Join(err, os.Remove(path))
	}
	removeEmpty("/var/lib/cni/results")
	removeEmpty("/var/lib/cni")
	return err
}

// removeCgroups removes the daemon's control groups. One whose last process has just
// ended is busy for a moment.
func removeCgroups(ctx context.Context, l Layout, cgroupRoot string) error {
	below, err := cgroups(l, cgroupRoot)
	if err != nil {
		return nil // none are mounted
	}
	atTop, err := cgroups(l, "/")
	if err != nil {
		return nil
	}
	for _, dir := range slices.Concat(below, atTop) {
		for try := 0; ; try++ {
			err := unix.Rmdir(dir)
			if err == nil || errors.Is(err, unix.ENOENT) {
				break
			}
			if !errors.Is(err, unix.EBUSY) || try == 100 {
				return fmt.Errorf("remove the cgroup %s: %w", dir, err)
			}
			if err := wait.Sleep(ctx, 20*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

// Prune removes what is unpacked of archives that no process runs and no container needs
// any more, but for one.
// It is called with the layout's lock held.
func Prune(ctx context.Context, l Layout, keep string) error {
	digests, err := UnpackedDigests(l)
	if err != nil {
		return err
	}
	running, err := readRunning(l)
	if err != nil {
		return err
	}
	used := map[string]bool{keep: true}
	for _, p := range running {
		used[p.Digest] = true
	}
	for _, d := range readShimDigests(l) {
		used[d] = true
	}
	var errs []error
	for _, d := range digests {
		if !used[d] {
			errs = append(errs, removeTree(ctx, l.Unpacked(d)))
		}
	}
	return errors.Join(errs...)
}

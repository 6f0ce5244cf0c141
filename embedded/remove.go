package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/cniplugin"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/podnetns"
	"github.com/podrun/podrun/internal/rootless"
	"github.com/podrun/podrun/internal/safepath"
	"github.com/podrun/podrun/internal/wait"
)

// End terminates containerd, the shims, and the containers that they started. The caller must
// hold the layout's lock.
func End(ctx context.Context, l Layout) error {
	return errors.Join(Stop(ctx, l, ReadDaemon(ctx, l)), stopStrays(ctx, l))
}

// Remove removes the runtime and everything that it created on this host. Call it when there are no
// more pods, and hold the layout's lock. cgroupRoot is --cgroup-root. It removes as much as
// possible. The error lists the leftovers, and the caller can call Remove again.
func Remove(ctx context.Context, l Layout, cgroupRoot string) error {
	digests, err := UnpackedDigests(l)
	if err := errors.Join(err, End(ctx, l)); err != nil {
		// Running processes would create files again.
		return err
	}
	var errs []error
	errs = append(errs, removeRules(ctx, l, digests), removeBridge(l))
	for _, dir := range []string{l.State(), l.Dir()} {
		errs = append(errs, unmountBelow(ctx, dir))
	}
	errs = append(errs, removeCgroups(ctx, l, cgroupRoot), removeResults(l))
	if errors.Join(errs...) != nil {
		// Keep the files, because a later call uses them to find the leftovers.
		return errors.Join(errs...)
	}
	for _, dir := range []string{l.State(), l.Dir()} {
		errs = append(errs, removeTree(ctx, dir))
	}
	for _, dir := range []string{filepath.Dir(l.State()), "/run/containerd/s", "/run/containerd"} {
		removeEmpty(dir)
	}
	return errors.Join(errs...)
}

// removeEmpty removes a directory that others use, too, if the directory is empty.
func removeEmpty(dir string) { _ = unix.Rmdir(dir) }

// stopStrays terminates processes of the runtime that remain, such as shims and a containerd
// without a record. It also terminates the processes that these started.
func stopStrays(ctx context.Context, l Layout) error {
	var errs []error
	// A shim may have been starting another process.
	for range 3 {
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
				errs = append(errs, fmt.Errorf("terminate process %d: %w", p.PID, err))
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return errors.Join(errs...)
}

// unmountBelow unmounts everything below a directory: root file systems, network namespaces and
// shared memory. The path contains no symlinks, because podrun created it.
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

// removeTree removes a directory tree without following mounts or symbolic links.
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

// removeRules removes the network's packet filter rules. It uses the plugin that created them:
// a garbage collection (CNI 1.1) without valid attachments.
func removeRules(ctx context.Context, l Layout, digests []string) error {
	if _, err := os.Stat(l.NetworkFile()); errors.Is(err, fs.ErrNotExist) {
		// No pod has used the network.
		return nil
	}
	config, err := collection(ctx, l)
	if err != nil {
		return err
	}
	for _, digest := range digests {
		plugin := filepath.Join(l.Unpacked(digest), "cni", cniplugin.Own)
		if _, err := os.Stat(plugin); err != nil {
			// An earlier call has removed a part of it.
			continue
		}
		if err := cniplugin.Exec(ctx, plugin, "GC", config); err != nil {
			return fmt.Errorf("remove the nftables rules of %s: %w", l.Bridge(), err)
		}
		return nil
	}
	return nil
}

// collection returns the input of a garbage collection without valid attachments. For root, it has only the names, so
// that a damaged configuration does not prevent the removal.
func collection(ctx context.Context, l Layout) ([]byte, error) {
	config := map[string]any{"cniVersion": "1.1.0", "name": l.Bridge(), "type": cniplugin.Own, "bridge": l.Bridge()}
	if rootless.User() {
		data, err := hostfile.ReadNoFollow(ctx, l.NetworkFile(), maxRecord)
		if err == nil {
			config, err = pluginOf(data)
		}
		if err != nil {
			return nil, fmt.Errorf("read the network's configuration: %w", err)
		}
	}
	config["cni.dev/valid-attachments"] = []any{}
	return json.Marshal(config)
}

// removeBridge removes the network interface of the pods, if it is a bridge.
func removeBridge(l Layout) error {
	err := podnetns.Do(func() error {
		link, err := netlink.LinkByName(l.Bridge())
		if err == nil && link.Type() == "bridge" {
			err = netlink.LinkDel(link)
		}
		return err
	})
	if _, missing := err.(netlink.LinkNotFoundError); missing || errors.Is(err, podnetns.ErrAbsent) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove the bridge %s: %w", l.Bridge(), err)
	}
	return nil
}

// removeResults removes the results that libcni has cached for the network's attachments. If
// its directories are empty, it also removes these.
func removeResults(l Layout) error {
	if rootless.User() && rootless.Inside() == nil {
		return nil // the host's directory is root's
	}
	cached, err := hostfile.Entries("/var/lib/cni/results", l.Bridge()+"-", "")
	for _, path := range cached {
		err = errors.Join(err, os.Remove(path))
	}
	removeEmpty("/var/lib/cni/results")
	removeEmpty("/var/lib/cni")
	return err
}

// removeCgroups removes the daemon's cgroups. After the last process of a cgroup has exited,
// the cgroup is busy for a moment.
func removeCgroups(ctx context.Context, l Layout, cgroupRoot string) error {
	if rootless.User() {
		return nil // it has none
	}
	below, err := cgroups(l, cgroupRoot)
	if err != nil {
		// No cgroups are mounted.
		return nil
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

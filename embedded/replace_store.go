package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/moby/sys/mountinfo"
	"github.com/vishvananda/netlink"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/netdump"
	"github.com/podrun/podrun/internal/podnetns"
	"github.com/podrun/podrun/internal/statefile"
)

// DamagedStore is podrun's decision to replace a damaged store. It is a file in the directory
// of the store: renaming the directory completes the replacement, and a podrun process that was
// interrupted, or an older podrun that has created another store since, cannot make podrun replace
// the wrong one.
type DamagedStore struct {
	SchemaVersion int       `json:"schemaVersion"`
	Why           string    `json:"why"`
	At            time.Time `json:"at"`
	// Bytes is the disk space of the replaced store, and Announced is true once the replacement was
	// reported; both are set after the replacement.
	Bytes     int64 `json:"bytes,omitempty"`
	Announced bool  `json:"announced,omitempty"`
}

// damagedFile is the name of the file with the decision.
const damagedFile = ".podrun-damaged.json"

// ReadCondemned returns the decision to replace the store in use; nil if there is none.
func ReadCondemned(ctx context.Context, l Layout) (*DamagedStore, error) {
	return readDamaged(ctx, l.Containerd())
}

// ReadReplaced returns the decision by which the kept store was replaced; nil if there is none.
func ReadReplaced(ctx context.Context, l Layout) (*DamagedStore, error) {
	return readDamaged(ctx, l.Replaced())
}

func readDamaged(ctx context.Context, dir string) (*DamagedStore, error) {
	found := damagedStoreFile.Examine(ctx, filepath.Join(dir, damagedFile))
	switch {
	case found.Fault != nil && statefile.LacksResources(found.Fault):
		return nil, found.Fault
	case found.State == statefile.Absent, found.State == statefile.Unreadable:
		return nil, nil
	}
	// The file's existence is the decision: if its content was lost in a power failure, only the
	// reason is unknown.
	found.Value.Why = cmp.Or(found.Value.Why, "unknown")
	return &found.Value, nil
}

func (d DamagedStore) write(dir string) error {
	d.SchemaVersion = schema
	return damagedStoreFile.Write(filepath.Join(dir, damagedFile), d)
}

// Condemn records the decision to replace the store. It returns an error, and records nothing, if the
// store cannot be moved, or if this host prevents its use. The layout's lock must be held.
func Condemn(ctx context.Context, l Layout, why string, at time.Time) error {
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(ReadRealPath(l.Containerd())))
	if err != nil {
		return fmt.Errorf("read the mounts: %w", err)
	}
	var points []string
	for _, m := range mounts {
		points = append(points, m.Mountpoint)
	}
	info, err := os.Lstat(l.Containerd())
	if err != nil {
		return err
	}
	if other := immovable(ReadRealPath(l.Containerd()), info.Mode(), points); other != "" {
		return fmt.Errorf("podrun does not replace the store: %s", other)
	}
	if err := probeStore(ctx, l); err != nil {
		return err
	}
	return DamagedStore{Why: why, At: at}.write(l.Containerd())
}

// immovable returns why the directory of a store cannot be moved; "" if it can. The user may have put
// the store, or a part of it, on another file system: podrun would then unmount it, and create the
// new store on the wrong one. It is pure.
func immovable(dir string, mode fs.FileMode, mountpoints []string) string {
	if !mode.IsDir() {
		return dir + " is a symbolic link"
	}
	for _, point := range mountpoints {
		// containerd itself mounts below tmpmounts.
		if point == dir || strings.HasPrefix(point, dir+"/") && !strings.HasPrefix(point, dir+"/tmpmounts/") {
			return point + " is a mount point"
		}
	}
	return ""
}

// Release removes everything that containers of the store have on this host, except processes and
// cgroups: mounts, network namespaces and interfaces, addresses, rules of the firewall, and the state
// of containerd and runc. Call it after End, with the layout's lock held. It can be repeated.
func Release(ctx context.Context, l Layout) error {
	running, err := readRunning(l)
	if err == nil && len(running) > 0 {
		err = fmt.Errorf("%d processes of containers are still running, the first one is %d", len(running), running[0].PID)
	}
	if err != nil {
		return err
	}
	digests, err := UnpackedDigests(l)
	if err != nil {
		return err
	}
	errs := []error{removeRules(ctx, l, digests), removePorts(l)}
	for _, dir := range []string{l.State(), l.Containerd()} {
		errs = append(errs, unmountBelow(ctx, dir))
	}
	if err := errors.Join(errs...); err != nil {
		return err // a later call uses the remaining files to find the other leftovers
	}
	errs = []error{removeResults(l)}
	for _, dir := range append(l.OCIRuntimes(), l.Addresses(), l.Tasks(), l.Shims()) {
		errs = append(errs, removeTree(ctx, dir))
	}
	return errors.Join(errs...)
}

// removePorts removes the interfaces of sandboxes from the bridge: a process outside the containers
// may keep a network namespace with an address that a new sandbox gets.
func removePorts(l Layout) error {
	err := podnetns.Do(func() error { return removePortsHere(l) })
	if errors.Is(err, podnetns.ErrAbsent) {
		return nil
	}
	return err
}

// removePortsHere is removePorts in the network namespace of the bridge.
func removePortsHere(l Layout) error {
	bridge, err := netlink.LinkByName(l.Bridge())
	if _, missing := err.(netlink.LinkNotFoundError); missing {
		return nil
	}
	links, lerr := netdump.Repeat(netlink.LinkList)
	if err := errors.Join(err, lerr); err != nil {
		return fmt.Errorf("list the interfaces of %s: %w", l.Bridge(), err)
	}
	var errs []error
	for _, link := range links {
		if link.Type() != "veth" || link.Attrs().MasterIndex != bridge.Attrs().Index {
			continue
		}
		if err := netlink.LinkDel(link); err != nil {
			if _, missing := err.(netlink.LinkNotFoundError); !missing && !errors.Is(err, syscall.ENODEV) {
				errs = append(errs, fmt.Errorf("remove the interface %s: %w", link.Attrs().Name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// SetAside moves a condemned store to Layout.Replaced, in place of an earlier one. The next start of
// containerd creates a new store, into which the archives of Layout.Images are loaded again. Call it
// after Release, with the layout's lock held. It can be repeated.
func SetAside(ctx context.Context, l Layout) error {
	condemned, err := ReadCondemned(ctx, l)
	if err != nil || condemned == nil {
		return err
	}
	// The record of loaded archives is removed first: an older podrun may continue after a kill.
	if err := removeIfExists(l.Loaded()); err != nil {
		return err
	}
	if err := removeTree(ctx, l.Replaced()); err != nil {
		return err
	}
	if err := os.Rename(l.Containerd(), l.Replaced()); err != nil {
		return err
	}
	Ends{}.write(l) // the counted ends are those of the store that was moved
	return hostfile.SyncDir(l.Dir())
}

// NoteAnnounced records that a replacement was reported.
func NoteAnnounced(l Layout, d DamagedStore) error {
	d.Announced = true
	return d.write(l.Replaced())
}

// DiskUsage returns the disk space of a directory tree in bytes. It omits files and directories that it cannot read.
func DiskUsage(ctx context.Context, dir string) int64 {
	var blocks int64
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return fs.SkipAll
		}
		if err != nil {
			return nil
		}
		if info, err := e.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok && (st.Nlink == 1 || e.IsDir()) {
				blocks += st.Blocks
			}
		}
		return nil
	})
	return blocks * 512
}

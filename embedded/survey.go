package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/netdump"
	"github.com/podrun/podrun/internal/oomscore"
	"github.com/podrun/podrun/internal/podnetns"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/rootless"
)

// AnswerWithin limits the wait for a socket.
const AnswerWithin = 2 * time.Second

// programDirs are the directories in which runtimes are installed. podrun does not rely on
// PATH, because root's may differ from the caller's.
var programDirs = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// ReadSurvey finds the runtimes of this host, and queries the version of each.
func ReadSurvey(ctx context.Context) *Survey {
	s := &Survey{Installed: map[string]string{}}
	for _, endpoint := range cri.DefaultEndpoints() {
		program := "containerd"
		if strings.Contains(endpoint, "crio") {
			program = "crio"
		}
		s.Sockets = append(s.Sockets, Socket{Endpoint: endpoint, Program: program, State: ReadSocket(ctx, endpoint, AnswerWithin)})
		for _, dir := range programDirs {
			path := filepath.Join(dir, program)
			if s.Installed[program] == "" && isProgram(path) {
				s.Installed[program] = path
			}
		}
	}
	return s
}

// ReadSocket determines how a runtime's socket responds.
func ReadSocket(ctx context.Context, endpoint string, within time.Duration) SocketState {
	path, err := cri.SocketPath(endpoint)
	if err != nil {
		return Silent
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return Absent
	}
	if conn, err := (&net.Dialer{Timeout: within}).DialContext(ctx, "unix", path); errors.Is(err, unix.ECONNREFUSED) {
		return Stale
	} else if err == nil {
		_ = conn.Close() // nothing was written
	}
	client, err := cri.Dial(endpoint, "", within)
	if err != nil {
		return Silent
	}
	defer client.Close()
	switch _, err := client.Version(ctx); {
	case err == nil:
		return Answers
	case status.Code(err) == codes.Unimplemented:
		return NoCRI
	}
	return Silent
}

// CheckHost returns an error if the embedded runtime cannot run on this host. need is the
// space, in bytes, that the runtime needs on the root directory's file system. It is 0 if the
// runtime is already unpacked. The error is of kind Refused.
func CheckHost(ctx context.Context, l Layout, need int64) error {
	refuse := func(err error, hint string) error {
		return &problem.Error{Kind: problem.Refused, Object: "embedded runtime", Err: err, Hint: hint}
	}
	if rootfs, err := onRootfs(ctx); err != nil {
		return err
	} else if rootfs {
		return refuse(errors.New("the root file system is the kernel's initramfs, which containers cannot leave by pivot_root(2)"), RootfsHint)
	}
	if missing := MissingPrivileges(); missing != "" {
		return refuse(fmt.Errorf("podrun is not permitted to %s, which pods require", missing), PrivilegesHint)
	}
	at, st, err := statfsAbove(l.RootDir)
	if err != nil {
		return refuse(fmt.Errorf("%s: %w", at, err), "set another directory with --root-dir")
	}
	if st.Flags&unix.ST_NOEXEC != 0 {
		return refuse(fmt.Errorf("%s is on a file system that is mounted with noexec: the runtime's programs cannot be executed there", l.RootDir), "set a directory on another file system with --root-dir, or remount without noexec")
	}
	if free := int64(st.Bavail) * st.Bsize; free < need {
		return refuse(fmt.Errorf("the file system of %s has %d MB free, but the runtime requires %d MB", l.RootDir, free>>20, need>>20), "free space, or set a directory on another file system with --root-dir")
	}
	return nil
}

// RootfsHint is the fix for a host that runs from an initramfs.
const RootfsHint = "let the init program mount a tmpfs, copy the files there and run switch_root to it"

// onRootfs reports whether / is the file system to which the kernel unpacks an initramfs. It
// has no parent mount, so pivot_root(2) fails with EINVAL. runc's alternative, to move a mount
// over it, would give privileged containers access to the host's files.
func onRootfs(ctx context.Context) (bool, error) {
	data, err := hostfile.Read(ctx, "/proc/self/mountinfo", 64<<20)
	if err != nil {
		return false, &problem.Error{Kind: problem.Runtime, Object: "embedded runtime", Op: "read the mounts", Err: err, Hint: "is /proc mounted?"}
	}
	return rootfsIn(string(data)), nil
}

// ReadRootfs is onRootfs for a report. If podrun cannot determine the answer, it returns false.
func ReadRootfs(ctx context.Context) bool {
	is, err := onRootfs(ctx)
	return is && err == nil
}

// ReadRealPath resolves the symbolic links in a path that need not exist yet. With it, all
// names of a directory refer to the same runtime.
func ReadRealPath(path string) string {
	rest := ""
	for at := filepath.Clean(path); ; at = filepath.Dir(at) {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(real, rest)
		}
		if at == filepath.Dir(at) {
			return path
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}

// statfsAbove returns the file system of a path or of its nearest existing parent.
func statfsAbove(path string) (at string, st unix.Statfs_t, err error) {
	for at = path; ; at = filepath.Dir(at) {
		if err = unix.Statfs(at, &st); err != unix.ENOENT || at == filepath.Dir(at) {
			return at, st, err
		}
	}
}

// linkIndex returns the index of a link of the pod network; -1 if there is no link with this name.
func linkIndex(name string) int {
	link, err := podnetns.Call(func() (netlink.Link, error) { return netlink.LinkByName(name) })
	if err != nil {
		return -1
	}
	return link.Attrs().Index
}

// readUsed lists the networks of this host's addresses and of its routes in all tables,
// except those of one link. Without IPv6 in the kernel, it lists only IPv4 networks.
func readUsed(except string) ([]netip.Prefix, error) {
	if !podnetns.Separate() {
		return readUsedHere(linkIndex(except))
	}
	// The namespace of the pods has the networks of podrun-rootless, and pods reach those of the host through it.
	used, err := readUsedHere(-1)
	if err != nil {
		return nil, err
	}
	skip := linkIndex(except)
	there, err := podnetns.Call(func() ([]netip.Prefix, error) { return readUsedHere(skip) })
	if errors.Is(err, podnetns.ErrAbsent) {
		return used, nil
	}
	return append(used, there...), err
}

// readUsedHere is readUsed for the network namespace of this thread.
func readUsedHere(skip int) ([]netip.Prefix, error) {
	var used []netip.Prefix
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := netdump.Repeat(func() ([]netlink.Route, error) {
			return netlink.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
		})
		if err != nil && family == netlink.FAMILY_V4 {
			return nil, fmt.Errorf("read the routes: %w", err)
		}
		for _, r := range routes {
			if p, ok := prefixOf(r.Dst); ok && r.LinkIndex != skip {
				used = append(used, p)
			}
		}
		addresses, err := netdump.Repeat(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, family) })
		if err != nil && family == netlink.FAMILY_V4 {
			return nil, fmt.Errorf("read the addresses: %w", err)
		}
		for _, a := range addresses {
			if p, ok := prefixOf(a.IPNet); ok && a.LinkIndex != skip {
				used = append(used, p)
			}
		}
	}
	return used, nil
}

// ReadCollision returns a pod subnet, and the networks of this host's routes and addresses
// that overlap it now. If no subnet has such networks, it returns the first one; if there is
// no pod network yet, none.
func ReadCollision(ctx context.Context, l Layout) (netip.Prefix, []netip.Prefix, error) {
	subnets, err := ReadSubnets(ctx, l)
	if err != nil || len(subnets) == 0 {
		return netip.Prefix{}, nil, err
	}
	used, err := readUsed(l.Bridge())
	if err != nil {
		return netip.Prefix{}, nil, err
	}
	for _, p := range subnets {
		if found := overlapping(p, used); len(found) > 0 {
			return p, found, nil
		}
	}
	return subnets[0], nil, nil
}

// readTraits determines the properties of the host on which the configuration depends. The root
// directory must exist.
func readTraits(ctx context.Context, l Layout, driver string) (Traits, error) {
	t := Traits{SystemdCgroup: !rootless.User() && (driver == "systemd" || driver == "" && systemdOnV2()), Rootless: rootless.User()}
	data, err := hostfile.Read(ctx, "/proc/self/status", maxRecord)
	if err != nil {
		return t, err
	}
	userNS, err := os.Readlink("/proc/self/ns/user")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	may := oomscore.MayLower(string(data), userNS)
	t.LowersOOM = may != nil && *may
	if !t.Rootless { // podrun-oci executes only runc
		t.Handlers = readHandlers()
	}
	if dir, _ := rootless.Cgroup(); dir != "" {
		t.Delegated = rootless.Controllers(dir)
	}
	t.Overlay, err = overlayWorks(l.Dir())
	return t, err
}

// systemdOnV2 reports whether the cgroups of containers belong to systemd; this is kubeadm's
// default, too. On v1, they do not need to: cgroups that runc itself creates work next to
// systemd's.
func systemdOnV2() bool {
	var st unix.Statfs_t
	return systemdRuns() && unix.Statfs("/sys/fs/cgroup", &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC
}

// systemdRuns is sd_booted(3).
func systemdRuns() bool {
	return hostfile.IsDir("/run/systemd/system")
}

// overlayWorks tries to mount overlayfs in a directory. The mount fails on another overlayfs, on some network file
// systems, and with kernels that lack overlayfs.
func overlayWorks(dir string) (bool, error) {
	try, err := os.MkdirTemp(dir, ".overlay-")
	if err != nil {
		return false, err
	}
	// By then, the directory is unmounted or empty.
	defer os.RemoveAll(try)
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(try, name), 0o700); err != nil {
			return false, err
		}
	}
	// Use relative names, because commas and colons separate the options.
	root, err := unix.Open(try, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	defer unix.Close(root)
	at := fmt.Sprintf("/proc/self/fd/%d/", root)
	options := "lowerdir=" + at + "lower,upperdir=" + at + "upper,workdir=" + at + "work"
	if rootless.User() {
		options += ",userxattr" // trusted.* attributes cannot be set in a user namespace; Linux 5.11
	}
	if unix.Mount("overlay", filepath.Join(try, "merged"), "overlay", 0, options) != nil {
		return false, nil
	}
	return true, unix.Unmount(filepath.Join(try, "merged"), unix.MNT_DETACH)
}

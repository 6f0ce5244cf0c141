package discover

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/oomscore"
)

// Examination contains all data about a host that podrun could read.
type Examination struct {
	Facts   host.Facts
	Checkup host.Checkup
	Down    error   // why the runtime does not respond; nil if it does
	Unread  []error // errors of other reads
}

// Examine reads as much as it can about the host. If client is nil, it skips the runtime.
func Examine(ctx context.Context, client *cri.Client, s nodeconfig.Settings, o Options) Examination {
	return examine(machine{ctx: ctx, root: "/"}, client, s, o)
}

func examine(m machine, client *cri.Client, s nodeconfig.Settings, o Options) Examination {
	var e Examination
	e.Facts, e.Down, e.Unread = gather(m, client, s, o)
	e.Checkup = host.Checkup{
		Root: os.Geteuid() == 0,
		Directories: []host.Directory{
			directory("--root-dir", s.RootDir), directory("--pod-logs-dir", s.PodLogsDir), directory("--container-logs-dir", s.ContainerLogsDir),
		},
		ReadOnlyCgroups: readOnly(e.Facts.Cgroup),
		Seccomp:         m.exists("proc/sys/kernel/seccomp"),
		Sysctls:         m.sysctls("user.max_user_namespaces", "fs.inotify.max_user_instances", "fs.inotify.max_user_watches"),
		Programs:        m.programs("containerd", "crio", "dockerd", "runc", "crun", "apparmor_parser"),
		PackageManager:  checkup{m}.packageManager(),
		Systemd:         m.systemdIsInit(),
		OtherSockets:    checkup{m}.otherSockets(),
		CRIDisabledIn:   checkup{m}.criDisabledIn("/etc/containerd/config.toml"),
		CNI:             networkConfig{m}.cni(e.Facts.Runtime),
		User:            checkup{m}.examineUser(s.RootDir),
	}
	if client != nil && e.Down == nil {
		checkup{m}.behindSocket(&e.Checkup, client.Endpoint())
		e.Checkup.SandboxImage = SandboxImage(m.ctx, client, e.Facts.Runtime)
	}
	return e
}

// Software determines how the user can install and start programs on the host. It sets
// PackageManager and Systemd of the Checkup.
func Software() host.Checkup {
	m := machine{ctx: context.Background(), root: "/"}
	return host.Checkup{PackageManager: checkup{m}.packageManager(), Systemd: m.systemdIsInit()}
}

// packageManager returns the host's package manager; "" if podrun does not know it.
func (m checkup) packageManager() string {
	for _, name := range []string{"apt-get", "dnf", "zypper", "apk", "pacman"} {
		if len(m.programs(name)) > 0 {
			return name
		}
	}
	return ""
}

// minFree is the minimum of free space. It includes the blocks that are reserved for root. The
// files of one pod require more than this.
const minFree = 256 << 10

// directory reports whether podrun can write to a directory or create it.
func directory(setting, path string) host.Directory {
	d := host.Directory{Setting: setting, Path: path}
	for at := path; ; {
		err := unix.Access(at, unix.W_OK|unix.X_OK)
		info, serr := os.Stat(at)
		parent := filepath.Dir(at)
		switch {
		case err == unix.ENOENT && parent != at:
			at = parent
			continue
		case err != nil:
			d.Problem = fmt.Sprintf("%s: %v", at, err)
		case serr == nil && !info.IsDir():
			d.Problem = at + " is not a directory"
		default:
			d.Writable = true
		}
		var st unix.Statfs_t
		if err := unix.Statfs(at, &st); err == nil {
			d.FreeBytes, d.LongName, d.NoExec = int64(st.Bavail)*st.Bsize, st.Namelen, st.Flags&unix.ST_NOEXEC != 0
			// Some file systems do not limit inodes, and report 0.
			switch {
			case st.Blocks > 0 && int64(st.Bfree)*st.Bsize < minFree:
				d.Full = "space"
			case st.Files > 0 && st.Ffree == 0:
				d.Full = "inodes"
			}
		}
		return d
	}
}

// readOnly lists the cgroup hierarchies to which podrun cannot write, as in most containers.
func readOnly(c host.Cgroup) []string {
	var out []string
	for _, point := range c.MountPoints {
		point += c.Delegated
		if unix.Access(point, unix.W_OK) != nil && !slices.Contains(out, point) {
			out = append(out, point)
		}
	}
	slices.Sort(out)
	return out
}

// sysctls reads numeric values in /proc/sys.
func (m machine) sysctls(names ...string) map[string]int64 {
	out := map[string]int64{}
	for _, name := range names {
		data, err := m.read(maxProcFile, "proc/sys", strings.ReplaceAll(name, ".", "/"))
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64); err == nil {
			out[name] = n
		}
	}
	return out
}

// programs searches the standard directories for programs, because root's PATH may differ from
// the caller's.
func (m machine) programs(names ...string) map[string]string {
	out := map[string]string{}
	for _, name := range names {
		for _, dir := range []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"} {
			path := filepath.Join(dir, name)
			if _, have := out[name]; !have && m.exists(path) {
				out[name] = path
			}
		}
	}
	return out
}

// otherSockets lists CRI sockets that podrun does not try by default.
func (m checkup) otherSockets() []string {
	var out []string
	for _, path := range []string{"/run/k3s/containerd/containerd.sock", "/run/cri-dockerd.sock", "/var/snap/microk8s/common/run/containerd.sock", "/run/k0s/containerd.sock"} {
		if m.exists(path) {
			out = append(out, path)
		}
	}
	return out
}

// disabledCRI matches the CRI plugin in the list of disabled plugins in a configuration of
// containerd. Docker's packages install such a configuration.
var disabledCRI = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^\s*disabled_plugins\s*=\s*\[[^\]]*["'](io\.containerd\.(grpc|cri)\.v1\.)?cri["']`)
})

func (m checkup) criDisabledIn(path string) string {
	data, err := m.read(maxConfig, path)
	if err != nil || !disabledCRI().Match(data) {
		return ""
	}
	return path
}

// behindSocket examines the process that serves a socket. If the process is in another PID
// namespace, behindSocket cannot find it.
func (m checkup) behindSocket(c *host.Checkup, endpoint string) {
	pid, err := cri.ServerPID(m.ctx, endpoint)
	if err != nil || pid <= 0 {
		return
	}
	c.RuntimePID = pid
	data, err := m.read(maxProcFile, "proc", strconv.Itoa(c.RuntimePID), "status")
	if err != nil {
		return
	}
	userNS, err := os.Readlink(filepath.Join(m.root, "proc", strconv.Itoa(c.RuntimePID), "ns", "user"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return
	}
	c.RuntimeLowersOOM = oomscore.MayLower(string(data), userNS)
}

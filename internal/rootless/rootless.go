// Package rootless provides the facts of podrun as an ordinary user (docs/design/rootless.md): whether this process
// is in the user namespace of podrun-rootless (U), the user's directories, and the record of podrun-rootless.
//
// The package imports only small packages of the standard library. Package entry, which executes podrun-enter before
// Go initializes the large packages, uses it. It does not import path/filepath: Go initializes packages that are ready in
// the order of their import paths, and that package only after those of "google.golang.org", "k8s.io" and others.
package rootless

import (
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// initialUserNS is the target of /proc/PID/ns/user of a process in the initial user namespace
// (PROC_USER_INIT_INO of linux/proc_ns.h).
const initialUserNS = "user:[4026531837]"

// state is what this process is. It does not change while the process runs.
type state struct {
	uid    int     // the user's ID outside of U; 0 for root
	runDir string  // empty for root
	record *Record // the record of the podrun-rootless whose namespace this process is in; nil outside of U
}

var current = sync.OnceValue(func() state { return read(os.Geteuid(), "/proc/self", os.Getenv("XDG_RUNTIME_DIR")) })

// read determines the state from the effective user ID, the directory of the process in /proc, and XDG_RUNTIME_DIR.
func read(euid int, proc, runtimeDir string) state {
	if euid != 0 {
		return state{uid: euid, runDir: pickRunDir(euid, euid, runtimeDir)}
	}
	ns, err := os.Readlink(proc + "/ns/user")
	if err != nil || ns == initialUserNS {
		return state{}
	}
	data, err := os.ReadFile(proc + "/uid_map")
	if err != nil {
		return state{}
	}
	outer, ok := outerUID(string(data))
	if !ok {
		return state{}
	}
	for _, dir := range runDirs(outer, runtimeDir) {
		// The kernel reuses the numbers of namespaces, so the record of a dead process proves nothing. The mount of N
		// exists only in M, which keeps U.
		r := readRecord(dir, euid)
		if r != nil && ns == "user:["+strconv.FormatUint(r.UserNamespace, 10)+"]" && isNamespace(r.Netns) {
			return state{uid: outer, runDir: dir, record: r}
		}
	}
	return state{}
}

// nsfsMagic is NSFS_MAGIC of linux/magic.h.
const nsfsMagic = 0x6e736673

// isNamespace reports whether a path is the mount point of a namespace.
func isNamespace(path string) bool {
	var st syscall.Statfs_t
	return syscall.Statfs(path, &st) == nil && int64(st.Type) == nsfsMagic
}

// outerUID returns the ID that the user 0 of a user namespace has outside of it.
func outerUID(uidMap string) (int, bool) {
	line, _, _ := strings.Cut(uidMap, "\n")
	f := strings.Fields(line)
	if len(f) != 3 || f[0] != "0" {
		return 0, false
	}
	uid, err := strconv.Atoi(f[1])
	return uid, err == nil && uid > 0
}

// User reports whether podrun works for an ordinary user: its effective user ID is not 0, or it is in U.
func User() bool { return current().uid != 0 }

// UID returns the user's ID outside of U; 0 for root.
func UID() int { return current().uid }

// Inside returns the record of podrun-rootless if this process is in its namespaces, else nil.
func Inside() *Record { return current().record }

// RunDir returns the user's run directory; "" for root.
func RunDir() string { return current().runDir }

// maxRunDir is the maximum length of a run directory. containerd limits the path of the directory of its shims'
// sockets, RUN/<8 characters>/s, to 42 bytes.
const maxRunDir = 31

// runDirs returns the possible run directories of a user, the preferred one first. A login session has
// XDG_RUNTIME_DIR, but cron, su and many CI runners do not set it.
func runDirs(uid int, runtimeDir string) []string {
	id := strconv.Itoa(uid)
	var out []string
	for _, dir := range []string{runtimeDir, "/run/user/" + id} {
		dir = path.Clean(dir)
		if run := path.Join(dir, "podrun"); path.IsAbs(dir) && len(run) <= maxRunDir && (len(out) == 0 || out[0] != run) {
			out = append(out, run)
		}
	}
	return append(out, "/tmp/podrun-"+id)
}

// pickRunDir returns the user's run directory: the one with a living podrun-rootless, so that commands with
// different environments use the same one; else the first one with a record; else the first one whose parent
// belongs to the user. owner is the user's ID in the user namespace of this process.
func pickRunDir(uid, owner int, runtimeDir string) string {
	dirs := runDirs(uid, runtimeDir)
	recorded := ""
	for _, dir := range dirs {
		r := readRecord(dir, owner)
		if r == nil {
			continue
		}
		if r.Alive() {
			return dir
		}
		if recorded == "" && r.BootID == bootID() {
			recorded = dir
		}
	}
	if recorded != "" {
		return recorded
	}
	for _, dir := range dirs[:len(dirs)-1] {
		if owns(path.Dir(dir), owner) {
			return dir
		}
	}
	return dirs[len(dirs)-1]
}

// owns reports whether a path is a directory that belongs to a user.
func owns(path string, uid int) bool {
	var st syscall.Stat_t
	return syscall.Lstat(path, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFDIR && int(st.Uid) == uid
}

// isPrivate reports whether a directory belongs to a user and no other user has access to it.
func isPrivate(path string, uid int) bool {
	var st syscall.Stat_t
	return syscall.Lstat(path, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFDIR && int(st.Uid) == uid && st.Mode&0o077 == 0
}

// bootID returns the ID of the current boot.
func bootID() string {
	data, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // an empty ID matches no record
	return strings.TrimSpace(string(data))
}

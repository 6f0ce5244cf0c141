// Package rootless runs podrun-bundle as an ordinary user on this machine. PODRUN_TEST_BUNDLE names a podrun-bundle
// that `make bundle` has built. Each test makes its own user in a mount namespace, with a home directory and
// subordinate IDs, so that it changes no file of the host, and leaves nothing behind.
package rootless

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/podrun/podrun/internal/rootless"
	"github.com/podrun/podrun/test/busybox"
	"github.com/podrun/podrun/test/inherited"
	"github.com/podrun/podrun/test/patience"
	"github.com/podrun/podrun/test/ring"
)

// bundle is a copy of podrun-bundle that every user can execute; shared has it and the archives of images.
var bundle, shared string

func TestMain(m *testing.M) {
	inherited.Reset()
	ring.Package(2)
	source := os.Getenv("PODRUN_TEST_BUNDLE")
	if source == "" || os.Geteuid() != 0 {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("/tmp", "podrun-rootless-")
	code := 1
	if err == nil {
		shared, bundle = dir, filepath.Join(dir, "podrun")
		err = errors.Join(os.Chmod(dir, 0o755), copyFile(source, bundle),
			busybox.Write(filepath.Join(dir, "root.tar"), rootImage, homeOf(0)...), busybox.Write(filepath.Join(dir, "users.tar"), usersImage, homeOf(1000)...))
	}
	if err == nil {
		code = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o755)
}

// The images of the tests, which no registry serves. All files of rootImage belong to root; usersImage has a file of
// another user.
const (
	rootImage  = "localhost/root:1"
	usersImage = "localhost/users:1"
)

// homeOf are the files of an image whose directory /home/app belongs to the given user.
func homeOf(owner int) []busybox.File {
	return []busybox.File{
		{Header: tar.Header{Name: "tmp/", Mode: 0o1777, Typeflag: tar.TypeDir}},
		{Header: tar.Header{Name: "home/app/", Mode: 0o700, Typeflag: tar.TypeDir, Uid: owner, Gid: owner}},
		{Header: tar.Header{Name: "etc/passwd", Mode: 0o644, Typeflag: tar.TypeReg}, Text: "root:x:0:0::/:/bin/sh\napp:x:1000:1000::/home/app:/bin/sh\n"},
		{Header: tar.Header{Name: "etc/group", Mode: 0o644, Typeflag: tar.TypeReg}, Text: "root:x:0:\napp:x:1000:\n"},
	}
}

// user is an ordinary user, with the files of a test.
type user struct {
	*testing.T
	uid       int
	first     int // the first subordinate ID
	dir, home string
	env       []string
}

// users counts the users of this process, which have different IDs.
var users atomic.Int32

const subordinate = 65536

// newUser makes a user. The variable XDG_RUNTIME_DIR of the user's commands names a directory if session is set, as in
// a login session.
func newUser(t *testing.T, session bool) *user {
	t.Helper()
	if bundle == "" {
		t.Skip("no embedded runtime: PODRUN_TEST_BUNDLE is not set; 'make bundle' builds one")
	}
	ring.RequireRoot(t)
	for _, program := range []string{"newuidmap", "newgidmap", "unshare", "setpriv"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	n := int(users.Add(1)) + os.Getpid()%1000*10
	u := &user{T: t, uid: 2_000_000 + n, first: 1_000_000_000 + n*subordinate}
	dir, err := os.MkdirTemp("/tmp", "r") // short, because the paths of sockets are limited
	if err != nil {
		t.Fatal(err)
	}
	u.dir, u.home = dir, filepath.Join(dir, "home")
	u.env = []string{"HOME=" + u.home, "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "PODRUN_EVICTION_HARD="}
	u.check(os.Chmod(dir, 0o755))
	u.check(os.MkdirAll(filepath.Join(u.home, ".local/share/podrun/images"), 0o755))
	u.check(os.Mkdir(filepath.Join(dir, "etc"), 0o755))
	for _, image := range []string{"root.tar", "users.tar"} {
		u.check(copyFile(filepath.Join(shared, image), filepath.Join(u.images(), image)))
	}
	u.etc("passwd", fmt.Sprintf("root:x:0:0::/root:/bin/sh\nann:x:%d:%d::%s:/bin/sh\n", u.uid, u.uid, u.home))
	u.etc("group", fmt.Sprintf("root:x:0:\nann:x:%d:\n", u.uid))
	for _, file := range []string{"subuid", "subgid"} {
		u.etc(file, fmt.Sprintf("ann:%d:%d\n", u.first, subordinate))
	}
	if session {
		run := filepath.Join(dir, "run")
		u.check(os.Mkdir(run, 0o700))
		u.env = append(u.env, "XDG_RUNTIME_DIR="+run)
	}
	u.own(dir)
	t.Cleanup(u.leavesNothing)
	return u
}

func (u *user) check(err error) {
	u.Helper()
	if err != nil {
		u.Fatal(err)
	}
}

// images is the directory whose archives podrun loads.
func (u *user) images() string { return filepath.Join(u.home, ".local/share/podrun/images") }

// etc writes a file that replaces the one of the host for the user's commands.
func (u *user) etc(file, text string) {
	u.Helper()
	u.check(os.WriteFile(filepath.Join(u.dir, "etc", file), []byte(text), 0o644))
}

// own gives a tree to the user, except the files in etc.
func (u *user) own(dir string) {
	u.Helper()
	u.check(filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == u.dir || strings.HasPrefix(path, filepath.Join(u.dir, "etc")) {
			return err
		}
		return os.Lchown(path, u.uid, u.uid)
	}))
}

// write writes a file in the user's home directory.
func (u *user) write(file, text string) string {
	u.Helper()
	path := filepath.Join(u.home, file)
	u.check(os.MkdirAll(filepath.Dir(path), 0o755))
	u.check(os.WriteFile(path, []byte(text), 0o644))
	for at := path; at != u.home; at = filepath.Dir(at) {
		u.check(os.Lchown(at, u.uid, u.uid))
	}
	return path
}

// asUser makes a shell a process of the user $1 in the directory $2, in a mount namespace with the files of the
// directory $3.
const asUser = `uid=$1 home=$2 etc=$3; shift 3
for f in passwd group subuid subgid; do mount --bind "$etc/$f" "/etc/$f" || exit 1; done
cd "$home" && exec setpriv --reuid "$uid" --regid "$uid" --init-groups "$@"`

// command returns a command of the user.
func (u *user) command(ctx context.Context, args ...string) *exec.Cmd {
	all := append([]string{"-m", "--propagation", "private", "sh", "-c", asUser, "sh", strconv.Itoa(u.uid), u.home, filepath.Join(u.dir, "etc")}, args...)
	c := patience.Command(ctx, "unshare", all...)
	c.Env = u.env
	return c
}

// run runs a podrun command until it ends or hangs, and returns its output.
func (u *user) run(args ...string) (string, error) { return u.runWith("", args...) }

// runWith is run with standard input.
func (u *user) runWith(stdin string, args ...string) (string, error) {
	ctx, cancel := patience.Context(context.Background(), patience.OnRuntime)
	defer cancel()
	c := u.command(ctx, append([]string{bundle}, args...)...)
	c.Stdin = strings.NewReader(stdin)
	out, err := c.CombinedOutput()
	return string(out), err
}

// must runs podrun, and fails the test if podrun fails.
func (u *user) must(args ...string) string {
	u.Helper()
	out, err := u.run(args...)
	if err != nil {
		u.Fatalf("podrun %s: %v\n%s\n%s", strings.Join(args, " "), err, out, u.log())
	}
	return out
}

// shows runs podrun, and fails the test unless the output contains a text.
func (u *user) shows(want string, args ...string) {
	u.Helper()
	if out := u.must(args...); !strings.Contains(out, want) {
		u.Errorf("podrun %s: no %q in the output\n%s", strings.Join(args, " "), want, out)
	}
}

// fails runs podrun, and fails the test unless it exits with the given code and all messages.
func (u *user) fails(code int, want []string, args ...string) {
	u.Helper()
	out, err := u.run(args...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != code {
		u.Errorf("podrun %s: %v, want code %d\n%s", strings.Join(args, " "), err, code, out)
	}
	for _, text := range want {
		if !strings.Contains(out, text) {
			u.Errorf("podrun %s: no %q in the output\n%s", strings.Join(args, " "), text, out)
		}
	}
}

// log returns the end of the logs of podrun-rootless and containerd.
func (u *user) log() string {
	var out strings.Builder
	for _, path := range []string{filepath.Join(u.runDir(), "rootless.log"), filepath.Join(u.home, ".local/share/podrun/runtime/containerd.log")} {
		data, err := os.ReadFile(path)
		fmt.Fprintf(&out, "%s (%v): %s\n", path, err, data[max(0, len(data)-3000):])
	}
	return out.String()
}

// runDir returns the run directory.
func (u *user) runDir() string {
	for _, v := range u.env {
		if dir, ok := strings.CutPrefix(v, "XDG_RUNTIME_DIR="); ok {
			return filepath.Join(dir, "podrun")
		}
	}
	return "/tmp/podrun-" + strconv.Itoa(u.uid)
}

// processes returns the living processes of the user and of the subordinate IDs, with their command lines.
func (u *user) processes() map[int]string {
	out := map[int]string{}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	u.check(err)
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		pid, _ := strconv.Atoi(filepath.Base(dir))
		state, _, ok := rootless.Stat(pid)
		if err != nil || !ok || state == "Z" || state == "X" {
			continue
		}
		uid := int(info.Sys().(*syscall.Stat_t).Uid)
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // the process may have ended
		if uid == 0 {
			uid = realUID(dir) // a process that is not dumpable belongs to root in /proc
		}
		if uid == u.uid || uid >= u.first && uid < u.first+subordinate {
			out[pid] = strings.ReplaceAll(string(line), "\x00", " ")
		}
	}
	return out
}

// realUID returns the user of a process; -1 if it is unknown.
func realUID(dir string) int {
	data, _ := os.ReadFile(filepath.Join(dir, "status")) // the process may have ended
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Uid:" {
			uid, err := strconv.Atoi(f[1])
			if err == nil {
				return uid
			}
		}
	}
	return -1
}

// find returns the process whose command line contains a text. It fails the test unless there is exactly one.
func (u *user) find(text string) int {
	u.Helper()
	found := 0
	for pid, line := range u.processes() {
		if strings.Contains(line, text) {
			if found != 0 {
				u.Fatalf("several processes: %v", u.processes())
			}
			found = pid
		}
	}
	if found == 0 {
		u.Fatalf("no process with %q: %v", text, u.processes())
	}
	return found
}

// kill kills a process, and waits until it has ended.
func (u *user) kill(pid int) {
	u.Helper()
	u.check(syscall.Kill(pid, syscall.SIGKILL))
	patience.Wait(u, patience.OnRuntime, "the process does not end", func() bool {
		state, _, ok := rootless.Stat(pid)
		return !ok || state == "Z" || state == "X"
	})
}

// leavesNothing removes the runtime, and checks for leftovers.
func (u *user) leavesNothing() {
	if u.Failed() {
		u.Log(u.log())
	}
	if out, err := u.run("runtime", "down", "--force"); err != nil {
		u.Errorf("down: %v\n%s", err, out)
	}
	for _, left := range u.leftovers() {
		u.Error(left)
	}
	for pid := range u.processes() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	os.RemoveAll(u.runDir())
	os.RemoveAll(u.dir)
}

// leftovers lists what remains after the runtime was removed.
func (u *user) leftovers() (left []string) {
	add := func(format string, values ...any) { left = append(left, fmt.Sprintf(format, values...)) }
	if processes := u.processes(); len(processes) > 0 {
		add("processes are left: %v", processes)
	}
	if _, err := os.Lstat(u.runDir()); err == nil {
		add("%s is left", u.runDir())
	}
	err := filepath.WalkDir(u.home, func(path string, d os.DirEntry, err error) error {
		info, serr := os.Lstat(path)
		if err == nil && serr == nil && int(info.Sys().(*syscall.Stat_t).Uid) != u.uid {
			add("%s belongs to another user", path)
		}
		return err
	})
	mounts, merr := os.ReadFile("/proc/self/mountinfo")
	if err != nil || merr != nil || strings.Contains(string(mounts), u.dir) {
		add("something is mounted still (%v, %v)", err, merr)
	}
	return left
}

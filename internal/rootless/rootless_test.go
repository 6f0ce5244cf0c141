package rootless

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestOuterUID(t *testing.T) {
	for text, want := range map[string]int{
		"         0       1001          1\n         1     100000      65536\n": 1001,
		"0 0 4294967295\n": -1, // the initial namespace
		"":                 -1,
		"1000 1001 1\n":    -1, // unshare --map-user: this process is not user 0
		"0 x 1\n":          -1,
	} {
		uid, ok := outerUID(text)
		if !ok {
			uid = -1
		}
		if uid != want {
			t.Errorf("outerUID(%q) = %d, want %d", text, uid, want)
		}
	}
}

func TestRunDirs(t *testing.T) {
	long := "/run/" + strings.Repeat("x", 20)
	for runtimeDir, want := range map[string]string{
		"":               "/run/user/7/podrun /tmp/podrun-7",
		"/run/user/7":    "/run/user/7/podrun /tmp/podrun-7",
		"/run/user/7/":   "/run/user/7/podrun /tmp/podrun-7",
		"/home/u/run":    "/home/u/run/podrun /run/user/7/podrun /tmp/podrun-7",
		"relative":       "/run/user/7/podrun /tmp/podrun-7",
		long:             "/run/user/7/podrun /tmp/podrun-7", // the sockets of shims would not fit
		"/run/user/4294": "/run/user/4294/podrun /run/user/7/podrun /tmp/podrun-7",
	} {
		if got := strings.Join(runDirs(7, runtimeDir), " "); got != want {
			t.Errorf("runDirs(7, %q) = %q, want %q", runtimeDir, got, want)
		}
	}
	if dir := runDirs(1<<32-2, "")[0]; len(dir) > maxRunDir {
		t.Errorf("%s is longer than %d bytes", dir, maxRunDir)
	}
}

// record writes a record of this process, or of one that has ended, to a private run directory below dir.
func record(t *testing.T, dir string, alive bool, boot string) string {
	t.Helper()
	run := filepath.Join(dir, "podrun")
	_, started, ok := Stat(os.Getpid())
	if !ok {
		t.Fatal("the start time of this process is unknown")
	}
	if !alive {
		started++
	}
	text := `{"schemaVersion":1,"pid":` + strconv.Itoa(os.Getpid()) + `,"startTime":` + strconv.FormatUint(started, 10) + `,"bootID":"` + boot + `"}`
	if err := os.MkdirAll(run, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(RecordFile(run), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return run
}

// shortDir returns a directory whose path is short enough for a run directory.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "r")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// TestPickRunDir checks that commands with different environments use the same run directory.
func TestPickRunDir(t *testing.T) {
	me := os.Geteuid()
	const unused = 1<<31 - 2 // has neither /run/user/UID nor /tmp/podrun-UID
	fallback := "/tmp/podrun-" + strconv.Itoa(unused)
	if got := pickRunDir(unused, me, ""); got != fallback {
		t.Errorf("without XDG_RUNTIME_DIR: %s, want %s", got, fallback)
	}
	dir := shortDir(t)
	if got := pickRunDir(unused, me, dir); got != dir+"/podrun" {
		t.Errorf("XDG_RUNTIME_DIR of this user: %s", got)
	}
	if got := pickRunDir(unused, me+1, dir); got != fallback {
		t.Errorf("XDG_RUNTIME_DIR of another user (after su): %s, want %s", got, fallback)
	}
	for name, c := range map[string]struct {
		alive bool
		boot  string
		want  bool
	}{"alive": {true, bootID(), true}, "of this boot": {false, bootID(), true}, "of an earlier boot": {false, "x", false}} {
		run := record(t, dir, c.alive, c.boot)
		r := readRecord(run, me)
		if r == nil || r.Alive() != c.alive {
			t.Errorf("%s: the record is %+v", name, r)
		}
		if got := pickRunDir(unused, me, dir); got != run {
			t.Errorf("%s: %s, want %s", name, got, run)
		}
	}
}

// TestForeignRecord checks that podrun executes no program that a record of another user names.
func TestForeignRecord(t *testing.T) {
	run := record(t, shortDir(t), true, bootID())
	me := os.Geteuid()
	if readRecord(run, me) == nil {
		t.Fatal("the record of a private directory was not read")
	}
	if readRecord(run, me+1) != nil {
		t.Error("the record in another user's directory was read")
	}
	if err := os.Chmod(run, 0o750); err != nil {
		t.Fatal(err)
	}
	if readRecord(run, me) != nil {
		t.Error("the record in a directory that a group can enter was read")
	}
	if err := os.Chmod(run, 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(shortDir(t), "podrun")
	if err := os.Symlink(run, link); err != nil {
		t.Fatal(err)
	}
	if readRecord(link, me) != nil {
		t.Error("a symbolic link was followed")
	}
}

// TestRead checks that a process in a user namespace other than podrun's counts as root, with or without a record of a
// podrun-rootless that has the same namespace number.
func TestRead(t *testing.T) {
	if got := read(0, "/proc/self", ""); got.uid != 0 || got.record != nil {
		ns, _ := os.Readlink("/proc/self/ns/user")
		t.Errorf("in %s, root is %+v", ns, got)
	}
	proc := t.TempDir()
	if err := os.Mkdir(filepath.Join(proc, "ns"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("user:[77]", filepath.Join(proc, "ns", "user")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(proc, "uid_map"), []byte("0 1234567 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := shortDir(t)
	run := filepath.Join(dir, "podrun")
	if err := os.Mkdir(run, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := read(0, proc, dir); got.uid != 0 {
		t.Errorf("without a record: %+v", got)
	}
	for netns, want := range map[string]int{dir: 0, "/proc/self/ns/net": 1234567} {
		text := `{"schemaVersion":1,"pid":1,"userNamespace":77,"netns":"` + netns + `"}`
		if err := os.WriteFile(RecordFile(run), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := read(os.Geteuid(), proc, dir); os.Geteuid() == 0 && got.uid != want {
			t.Errorf("with the network namespace %s, the user is %d, want %d", netns, got.uid, want)
		}
	}
}

func TestPasswdEntry(t *testing.T) {
	const text = "root:x:0:0:root:/root:/bin/sh\nshort\nann:x:1001:1001::/home/ann:/bin/sh\n"
	if got := passwdEntry(text, 1001); len(got) < 6 || got[5] != "/home/ann" {
		t.Errorf("ann's entry is %q", got)
	}
	if got := passwdEntry(text, 7); got != nil {
		t.Errorf("an entry of a missing user: %q", got)
	}
}

func TestUserDirs(t *testing.T) {
	t.Setenv("HOME", "/home/ann")
	t.Setenv("XDG_DATA_HOME", "")
	t.Setenv("XDG_CONFIG_HOME", "relative")
	if got := DataDir() + " " + ConfigDir(); got != "/home/ann/.local/share/podrun /home/ann/.config/podrun" {
		t.Errorf("the defaults are %s", got)
	}
	t.Setenv("XDG_DATA_HOME", "/data")
	if got := DataDir(); got != "/data/podrun" {
		t.Errorf("DataDir is %s", got)
	}
}

func TestRuns(t *testing.T) {
	_, started, ok := Stat(os.Getpid())
	if !ok || !Runs(os.Getpid(), started) || Runs(os.Getpid(), started+1) {
		t.Error("this process does not run, or its start time is not compared")
	}
	p, err := os.StartProcess("/proc/self/exe", []string{"x", "-test.run=^$"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{}})
	if err != nil {
		t.Fatal(err)
	}
	_, started, ok = Stat(p.Pid)
	if _, err := p.Wait(); err != nil || !ok || Runs(p.Pid, started) {
		t.Errorf("a process that was reaped runs (%v, %v)", ok, err)
	}
}

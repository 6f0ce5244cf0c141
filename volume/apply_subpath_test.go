package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Where an O_PATH descriptor leads.
func realPath(t *testing.T, f *os.File) string {
	t.Helper()
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOpenSubpathStaysInside(t *testing.T) {
	volume, host := t.TempDir(), t.TempDir()
	mustWrite(t, host+"/file")
	mustWrite(t, volume+"/in/file")
	os.Symlink("in", volume+"/link")
	os.Symlink("/in", volume+"/rooted")
	os.Symlink(host, volume+"/out")
	os.Symlink("../../../../../../etc", volume+"/up")
	os.Symlink("/proc/self/root", volume+"/magic")
	for sub, want := range map[string]string{
		"in/file":     "/in/file",
		"link/file":   "/in/file",
		"rooted/file": "/in/file",
		"new/a/b":     "/new/a/b",
		"link/new":    "/in/new",
		"..":          "",
		"../..":       "",
	} {
		f, err := OpenSubpath(volume, sub)
		if err != nil {
			t.Errorf("%s: %v", sub, err)
			continue
		}
		if got := realPath(t, f); got != volume+want {
			t.Errorf("%s leads to %s, want %s", sub, got, volume+want)
		}
		f.Close()
	}
	for _, sub := range []string{"out/file", "out", "up/passwd", "magic/etc/passwd", "in/file/x"} {
		if f, err := OpenSubpath(volume, sub); err == nil {
			t.Errorf("%s leads to %s, want an error", sub, realPath(t, f))
		}
	}
	if entries, _ := os.ReadDir(host); len(entries) != 1 {
		t.Errorf("made outside the volume: %v", entries)
	}
}

// kubelet-golden 19-emptydir: what a subPath makes looks like the volume.
func TestOpenSubpathMakesDirectoriesLikeTheVolume(t *testing.T) {
	volume := t.TempDir()
	if err := os.Chmod(volume, os.ModeSetgid|0o777); err != nil {
		t.Fatal(err)
	}
	f, err := OpenSubpath(volume, "a/b")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	for _, dir := range []string{"/a", "/a/b"} {
		if info, _ := os.Stat(volume + dir); info.Mode() != os.ModeDir|os.ModeSetgid|0o777 {
			t.Errorf("%s: %v", dir, info.Mode())
		}
	}
}

// CVE-2021-25741: a container that swaps a directory for a symlink meanwhile.
func TestOpenSubpathUnderASymlinkRace(t *testing.T) {
	volume, host := t.TempDir(), t.TempDir()
	mustWrite(t, host+"/sub/file")
	mustWrite(t, volume+"/dir/sub/file")
	os.Symlink(host, volume+"/evil")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				unix.Renameat2(unix.AT_FDCWD, volume+"/dir", unix.AT_FDCWD, volume+"/evil", unix.RENAME_EXCHANGE)
			}
		}
	}()
	inside := 0
	for range 10000 {
		f, err := OpenSubpath(volume, "dir/sub")
		if err != nil {
			continue
		}
		if got := realPath(t, f); !strings.HasPrefix(got, volume+"/") {
			t.Errorf("led out of the volume to %s", got)
		}
		inside++
		f.Close()
	}
	close(stop)
	<-stopped
	if inside == 0 {
		t.Error("no attempt got through: the race was not run")
	}
	if entries, _ := os.ReadDir(host); len(entries) != 1 {
		t.Errorf("made outside the volume: %v", entries)
	}
}

func TestBindSubpathIsRemovedWithThePod(t *testing.T) {
	plan := mustApply(t, oneEmptyDir)
	volume := plan.Volumes[0].HostPath
	mustWrite(t, volume+"/dir/file")
	for i, sub := range []string{"dir", "dir/file"} {
		f, err := OpenSubpath(volume, sub)
		if err != nil {
			t.Fatal(err)
		}
		target := plan.Layout.Subpath(plan.ID.UID, "disk", "app", i)
		// The name is swapped after the open: what was opened is bound.
		if i == 0 {
			os.Rename(volume+"/dir", volume+"/moved")
			os.Symlink("/etc", volume+"/dir")
		}
		if err := BindSubpath(f, target); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if i == 0 {
			wantIntact(t, target+"/file")
			os.Remove(volume + "/dir")
			os.Rename(volume+"/moved", volume+"/dir")
		} else {
			wantIntact(t, target)
		}
	}
	if n := len(mountsBelow(t, plan.Dir)); n != 2 {
		t.Errorf("%d mounts, want 2", n)
	}
	if err := remove1(plan); err != nil {
		t.Fatal(err)
	}
	wantGone(t, plan)
}

func TestOpenSubpathOfAMissingVolume(t *testing.T) {
	if _, err := OpenSubpath(filepath.Join(t.TempDir(), "none"), "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

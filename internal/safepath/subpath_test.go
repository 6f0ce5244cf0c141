package safepath

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/treetest"
)

// realPath returns the path of an O_PATH descriptor.
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
	treetest.Write(t, host+"/file")
	treetest.Write(t, volume+"/in/file")
	os.Symlink("in", volume+"/link")
	os.Symlink("/in", volume+"/rooted")
	os.Symlink(host, volume+"/out")
	os.Symlink("../../../../../../etc", volume+"/up")
	os.Symlink("/proc/self/root", volume+"/magic")
	for sub, want := range map[string]string{
		"in/file":   "/in/file",
		"link/file": "/in/file",
		"new/a/b":   "/new/a/b",
		"link/new":  "/in/new",
	} {
		f, err := OpenSubpath(t.Context(), volume, sub)
		if err != nil {
			t.Errorf("%s: %v", sub, err)
			continue
		}
		if got := realPath(t, f); got != volume+want {
			t.Errorf("%s leads to %s, want %s", sub, got, volume+want)
		}
		f.Close()
	}
	for sub, want := range map[string]error{
		"out/file": ErrOutside, "out": ErrOutside, "up/passwd": ErrOutside, "magic/etc/passwd": ErrOutside, "..": ErrOutside, "../..": ErrOutside,
		"in/file/x": unix.ENOTDIR, "rooted/file": unix.ENOENT,
	} {
		if f, err := OpenSubpath(t.Context(), volume, sub); err == nil {
			t.Errorf("%s leads to %s, want an error", sub, realPath(t, f))
		} else if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", sub, err, want)
		}
	}
	if entries, _ := os.ReadDir(host); len(entries) != 1 {
		t.Errorf("created outside the volume: %v", entries)
	}
}

// TestOpenSubpathMakesDirectoriesLikeTheVolume (kubelet-golden 19-emptydir, C5) checks that
// directories that podrun creates for a subPath have the mode of the volume, including the setuid,
// setgid and sticky bits.
func TestOpenSubpathMakesDirectoriesLikeTheVolume(t *testing.T) {
	for _, mode := range []os.FileMode{
		0o700, 0o777, os.ModeSetgid | 0o777, os.ModeSetgid | os.ModeSticky | 0o777, os.ModeSticky | 0o777, os.ModeSetuid | 0o750,
	} {
		volume := t.TempDir()
		if err := os.Chmod(volume, mode); err != nil {
			t.Fatal(err)
		}
		f, err := OpenSubpath(t.Context(), volume, "a/b")
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		for _, dir := range []string{"/a", "/a/b"} {
			if info, _ := os.Stat(volume + dir); info.Mode() != os.ModeDir|mode {
				t.Errorf("%s: %v, want %v", dir, info.Mode(), mode)
			}
		}
	}
}

// TestD11OpenIsNotTriedForEver (D11) checks that OpenSubpath returns if a container renames files
// continuously, so that openat2 nearly always returns EAGAIN.
func TestD11OpenIsNotTriedForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		busy := func() (int, error) { tries++; return -1, unix.EAGAIN }
		if _, err := tryAgain(t.Context(), busy); !errors.Is(err, unix.EAGAIN) || tries != againTries {
			t.Errorf("%v after %d tries; want EAGAIN after %d", err, tries, againTries)
		}
		ctx, cancel := context.WithCancel(t.Context())
		tries = 0
		if _, err := tryAgain(ctx, func() (int, error) {
			if tries == 3 {
				cancel()
			}
			return busy()
		}); !errors.Is(err, context.Canceled) || tries != 4 {
			t.Errorf("%v after %d tries; want canceled after 4", err, tries)
		}
		tries = 0
		if fd, err := tryAgain(t.Context(), func() (int, error) {
			if tries == 500 {
				return 7, nil
			}
			return busy()
		}); fd != 7 || err != nil {
			t.Errorf("descriptor %d, %v; want 7", fd, err)
		}
	})
}

// TestOpenSubpathUnderASymlinkRace (CVE-2021-25741) checks that OpenSubpath never opens a file of
// the host if a container replaces a directory, or an absolute symlink to a directory, with a
// symlink to the host during the walk.
func TestOpenSubpathUnderASymlinkRace(t *testing.T) {
	for _, absolute := range []bool{false, true} {
		t.Run(fmt.Sprint("absolute: ", absolute), func(t *testing.T) { raceForASubpath(t, absolute) })
	}
}

func raceForASubpath(t *testing.T, absolute bool) {
	volume, host := t.TempDir(), t.TempDir()
	treetest.Write(t, host+"/sub/file")
	if absolute {
		treetest.Write(t, volume+"/other/sub/file")
		os.Symlink(volume+"/other", volume+"/dir")
	} else {
		treetest.Write(t, volume+"/dir/sub/file")
	}
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
		f, err := OpenSubpath(t.Context(), volume, "dir/sub")
		if err != nil {
			continue
		}
		if got := realPath(t, f); !strings.HasPrefix(got, volume+"/") {
			t.Errorf("the path leads out of the volume to %s", got)
		}
		inside++
		f.Close()
	}
	close(stop)
	<-stopped
	if inside == 0 {
		t.Error("no attempt succeeded: the test did not exercise the race")
	}
	if entries, _ := os.ReadDir(host); len(entries) != 1 {
		t.Errorf("created outside the volume: %v", entries)
	}
}

func TestOpenSubpathOfAMissingVolume(t *testing.T) {
	if _, err := OpenSubpath(t.Context(), filepath.Join(t.TempDir(), "none"), "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

package discover

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/sys/mountinfo"

	"github.com/podrun/podrun/host"
)

func TestReadPaths(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.Mkdir(at("dir"), 0o700), os.WriteFile(at("file"), nil, 0o600), os.Symlink("dir", at("link")), os.Symlink("none", at("dangling"))); err != nil {
		t.Fatal(err)
	}
	got, err := machine{ctx: t.Context(), root: "/"}.readPaths([]string{at("dir"), at("file"), at("link"), at("dangling"), at("none"), at("file/below"), "/dev/null"}, false)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]host.Path{
		at("dir"): {Mode: fs.ModeDir}, at("file"): {}, at("link"): {Mode: fs.ModeDir, Symlink: true}, at("dangling"): {Symlink: true, Missing: true},
		at("none"): {Missing: true}, at("file/below"): {Error: "stat " + at("file/below") + ": not a directory"}, "/dev/null": {Mode: fs.ModeDevice | fs.ModeCharDevice},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	got, err = machine{ctx: t.Context(), root: "/"}.readPaths([]string{at("none/at/all")}, true)
	if p := got[at("none/at/all")]; err != nil || !p.Missing || p.MountPoint == "" || !strings.HasPrefix(dir, p.MountPoint) {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestMountOf(t *testing.T) {
	mounts, err := mountinfo.GetMountsFromReader(strings.NewReader(strings.Join([]string{
		`1 0 1:1 / / rw - ext4 /dev/root rw`,
		`2 1 1:2 / /shared rw shared:1 - ext4 /dev/a rw`,
		`3 1 1:3 / /slave rw master:1 - ext4 /dev/b rw`,
		`4 2 1:4 / /shared/private rw - ext4 /dev/c rw`,
		`5 2 1:4 / /shared/private rw shared:3 - ext4 /dev/d rw`,
	}, "\n")), nil)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/shared/none/x": "/shared shared", "/slave": "/slave slave", "/shared/private/none": "/shared/private shared", "/sharedness": "/", "/": "/"} {
		on := mountOf(mounts, path)
		got := on.Mountpoint
		if hasTag(on, "shared:") {
			got += " shared"
		}
		if hasTag(on, "master:") {
			got += " slave"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

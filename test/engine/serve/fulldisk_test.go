package serve

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/serve/supervisor"
	"github.com/podrun/podrun/test/engine/rig"
)

// fill writes to a file until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for len(block) > 0 {
		if _, err := f.Write(block); errors.Is(err, unix.ENOSPC) {
			block = block[:len(block)/2]
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// fillInodes creates files until the disk has no free inodes.
func fillInodes(t *testing.T, path string) {
	t.Helper()
	for i := 0; ; i++ {
		f, err := os.Create(path + strconv.Itoa(i))
		if errors.Is(err, unix.ENOSPC) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
}

// TestServeEvictsOnAFullDisk covers a pod that fills its emptyDir, and thereby the real disk of the
// root directory, to the last byte or inode. serve must evict the pod, remove its data, keep the
// other pod, and start the evicted pod again later.
func TestServeEvictsOnAFullDisk(t *testing.T) {
	t.Parallel()
	for signal, c := range map[string]struct {
		size, low string
		fill      func(*testing.T, string)
		free      func(host.Filesystem) bool
	}{
		"nodefs.available":  {"size=8m", "ephemeral-storage", fill, func(f host.Filesystem) bool { return f.AvailableBytes >= 6<<20 }},
		"nodefs.inodesFree": {"size=64m,nr_inodes=2000", "inodes", fillInodes, func(f host.Filesystem) bool { return f.InodesFree >= 1500 }},
	} {
		t.Run(signal, func(t *testing.T) { evictOnFullDisk(t, signal, c.size, c.low, c.fill, c.free) })
	}
}

// measureThisMachine makes a supervisor read the usage of this machine.
func measureThisMachine(e *run.Node, o *supervisor.Options) { o.Stats = supervisor.NewStats(e) }

// evictOnFullDisk tests one signal on a disk of the given size.
func evictOnFullDisk(t *testing.T, signal, size, low string, fill func(*testing.T, string), free func(host.Filesystem) bool) {
	synctest.Test(t, func(t *testing.T) {
		s := rig.NewSupervised(t)
		if err := os.MkdirAll(s.Settings.RootDir, 0o750); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", s.Settings.RootDir, "tmpfs", 0, size); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(s.Settings.RootDir, 0); err != nil {
				t.Error(err)
			}
		})
		s.Settings.EvictionHard = map[string]string{signal: "20%"}
		s.Configure = measureThisMachine
		s.Start()
		s.Files.Write(rig.File("web"), rig.ServedPod("web"))
		s.Files.Write(rig.File("db"), rig.PodText("db", "Always", "volumes: [{name: data, emptyDir: {}}]", "containers: [{name: db, image: registry.example/db:1, volumeMounts: [{name: data, mountPath: /data}]}]"))
		time.Sleep(5 * time.Second)
		web, db := s.Running("web"), s.Running("db")
		fill(t, filepath.Join(rig.MountedAt(t, db, "/data"), "big"))
		time.Sleep(30 * time.Second)
		s.Same(web)
		s.Absent("db")
		wantEvicted(s, "db", "The node was low on resource: "+low+".")
		left, err := supervisor.NewStats(s.Engine()).Node(t.Context())
		if err != nil || !free(left.NodeFS) {
			t.Errorf("%d bytes and %d inodes are free, %v", left.NodeFS.AvailableBytes, left.NodeFS.InodesFree, err)
		}
		time.Sleep(6 * time.Minute)
		s.Running("db")
		s.Same(web)
		s.Finish()
	})
}

package embedded

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	embed "github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/test/ring"
)

// mountAt mounts a file system at dir. It is unmounted after the test's rig has been cleaned up.
func mountAt(t *testing.T, dir string, args ...string) {
	t.Helper()
	if out, err := exec.Command("mount", append(args, dir)...).CombinedOutput(); err != nil {
		t.Fatalf("mount %v: %v\n%s", args, err, out)
	}
}

func unmount(t *testing.T, dir string) {
	t.Helper()
	if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
		t.Fatalf("umount %s: %v\n%s", dir, err, out)
	}
}

// reportsOnly checks that commands report a problem of the host, such as a full disk, and do not
// replace the store. The argument reason is a part of the problem's message.
func (r *rig) reportsOnly(reason string) {
	r.Helper()
	for range 2 * embed.DamagedStarts {
		r.fails(125, reason, "runtime", "up")
	}
	if ends := embed.ReadEnds(r.Context(), r.layout); ends.Damaged != 0 || !strings.Contains(ends.Why, reason) {
		r.Errorf("recorded: %+v", ends)
	}
	s := r.serve(bundle)
	r.until("/readyz reports the reason", func() bool {
		code, text := r.readyz()
		return code == 503 && strings.Contains(text, reason)
	})
	r.until("systemd knows the reason", func() bool {
		_, sent := s.texts()
		return strings.Contains(sent, "READY=1") && strings.Contains(sent, "WATCHDOG=1") && strings.Contains(sent, reason)
	})
	r.fails(122, reason, "doctor")
	s.stop()
	if _, err := os.Lstat(r.layout.Replaced()); err == nil {
		r.Error("the store was replaced")
	}
	r.answers() // the container is still running
}

// TestAFullDisk checks that podrun does not replace a damaged store on a full file system.
func TestAFullDisk(t *testing.T) {
	ring.Require(t, 2)
	disk := t.TempDir()
	mountAt(t, disk, "-t", "tmpfs", "-o", "size=200m", "podrun-test")
	t.Cleanup(func() { unmount(t, disk) })
	r := newRigAt(t, filepath.Join(disk, "root"))
	r.counter()
	s := r.serve(bundle)
	r.answers()
	s.stop()
	r.kill()
	r.damage(metaDB, truncate(16384))
	full := filepath.Join(disk, "full")
	f, err := os.Create(full)
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(block)
	}
	if f.Close(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	r.reportsOnly("no space left on device")
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	s = r.serve(bundle)
	r.until("the pod runs again", func() bool { return r.starts() == 2 })
	r.answers()
}

// TestAStoreInUse checks that podrun does not replace a store while another process has its
// database open, even if the database is damaged.
func TestAStoreInUse(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	r.counter()
	s := r.serve(bundle)
	r.answers()
	s.stop()
	r.kill()
	// If the file were not empty, bbolt would wait for the lock before it detects the damage.
	r.damage(metaDB, truncate(0))
	other, err := os.Open(filepath.Join(r.layout.Containerd(), metaDB))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := unix.Flock(int(other.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	r.reportsOnly("is locked by another process")
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	s = r.serve(bundle)
	r.until("the pod runs again", func() bool { return r.starts() == 2 })
	r.answers()
}

// TestADiskThatFails covers EIO for a page of the database. btrfs reports EIO if the content of a block
// does not match its checksum, so the test does not require the error target of the device mapper.
func TestADiskThatFails(t *testing.T) {
	ring.Require(t, 2)
	if _, err := exec.LookPath("mkfs.btrfs"); err != nil {
		t.Skip("mkfs.btrfs is not installed (btrfs-progs)")
	}
	dir := t.TempDir()
	image, disk := filepath.Join(dir, "image"), filepath.Join(dir, "disk")
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 512<<20), os.Mkdir(disk, 0o755)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.btrfs", "-q", image).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", image, disk).CombinedOutput(); err != nil {
		t.Skipf("btrfs cannot be mounted: %s", out)
	}
	t.Cleanup(func() { unmount(t, disk) })
	r := newRigAt(t, filepath.Join(disk, "root"))
	r.counter()
	s := r.serve(bundle)
	r.answers()
	s.stop()
	r.kill()
	db := filepath.Join(r.layout.Containerd(), metaDB)
	spoilBlocks(t, db, image)
	if _, err := os.ReadFile(db); !errors.Is(err, syscall.EIO) {
		t.Fatalf("reading the database: %v", err)
	}
	r.reportsOnly("input/output error")
}

// spoilBlocks makes the kernel report EIO for the pages of a bbolt database on a btrfs image.
func spoilBlocks(t *testing.T, db, image string) {
	t.Helper()
	pages, err := os.ReadFile(db)
	if err != nil {
		t.Fatal(err)
	}
	unix.Sync()
	f, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	disk, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for at := 0; at+4096 <= len(pages); at += 4096 {
		page := pages[at : at+4096]
		if len(bytes.Trim(page, "\x00")) == 0 {
			continue
		}
		for from := 0; ; {
			i := bytes.Index(disk[from:], page)
			if i < 0 {
				break
			}
			if _, err := f.WriteAt([]byte{^page[100]}, int64(from+i+100)); err != nil {
				t.Fatal(err)
			}
			found++
			from += i + 4096
		}
	}
	if found == 0 {
		t.Fatal("no page of the database was found on the disk")
	}
	// The kernel still has the good pages in its page cache.
	database, err := os.Open(db)
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	if err := errors.Join(f.Sync(), unix.Fadvise(int(database.Fd()), 0, 0, unix.FADV_DONTNEED)); err != nil {
		t.Fatal(err)
	}
}

package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
)

// maxOwnerRecord limits the size of an owner record in bytes. The record has an entry for each
// container that podrun is stopping, and a pod has at most 1,000 containers.
const maxOwnerRecord = 1 << 20

// ReadOwner reads a pod's owner record. It returns nil if there is none or if it is corrupt: no
// command then owns the pod. The error is of kind Refused if a newer version of podrun wrote the
// record.
func ReadOwner(layout identity.Layout, id identity.Pod) (*OwnerRecord, error) {
	data, err := readOwnerFile(layout, id)
	if data == nil || err != nil {
		return nil, err
	}
	return decodeOwner(id, data)
}

// readOwnerFile returns the content of a pod's owner record, or nil if there is none.
func readOwnerFile(layout identity.Layout, id identity.Pod) ([]byte, error) {
	data, err := hostfile.ReadNoFollow(context.Background(), layout.Owner(id), maxOwnerRecord)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, hostfile.ErrNotRegular) || errors.Is(err, hostfile.ErrTooLarge) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("pod %s: read its owner: %w", id, err)
	}
	return data, nil
}

// decodeOwner decodes an owner record. Its results are those of ReadOwner.
func decodeOwner(id identity.Pod, data []byte) (*OwnerRecord, error) {
	var r OwnerRecord
	if json.Unmarshal(data, &r) != nil {
		return nil, nil
	}
	if r.Schema > ownerSchema {
		return nil, &problem.Error{Kind: problem.Refused, Object: "pod " + id.String(),
			Err:  fmt.Errorf("its owner record has schema version %d, but this podrun supports only versions up to %d", r.Schema, ownerSchema),
			Hint: "use the newer podrun that wrote it"}
	}
	return &r, nil
}

// decodedOwner contains the last owner record that a process read. It avoids decoding, which takes
// longer than reading: a waiting process reads the record ten times per second, and each probe reads
// it twice.
type decodedOwner struct {
	mu     sync.Mutex
	data   []byte
	record *OwnerRecord // decoded from data; nil if data is corrupt
	file   ownerFile    // the file that contains data; the zero value if the file is not known for certain
}

// ownerFile identifies the content of an owner record: each write creates a new file.
type ownerFile struct {
	dev, inode uint64
	size       int64
	changed    unix.Timespec // inode change time
}

// settledOwner is the age after which an ownerFile identifies the content of the file. For two changes
// within one tick of the kernel's clock (at most 10 ms), a file system may record the same time and
// reuse the inode.
const settledOwner = time.Second

// statOwner returns the file of a pod's owner record. The result ok is false if a later change might
// not change the result.
func statOwner(path string) (f ownerFile, ok bool) {
	var s unix.Stat_t
	if unix.Lstat(path, &s) != nil {
		return f, false
	}
	f = ownerFile{dev: uint64(s.Dev), inode: s.Ino, size: s.Size, changed: s.Ctim}
	age := time.Since(time.Unix(s.Ctim.Unix()))
	return f, age > settledOwner
}

// read returns the owner record of a pod, or nil if there is none. It reads the file only if the file
// has changed since the last call. The caller may change the result.
func (d *decodedOwner) read(layout identity.Layout, id identity.Pod) (*OwnerRecord, error) {
	file, settled := statOwner(layout.Owner(id))
	d.mu.Lock()
	if settled && d.file == file {
		defer d.mu.Unlock()
		return d.record.clone(), nil
	}
	d.mu.Unlock()
	data, err := readOwnerFile(layout, id)
	if data == nil || err != nil {
		return nil, err
	}
	// data is the content of this file only if the file was the same before and after the read.
	if after, _ := statOwner(layout.Owner(id)); !settled || after != file {
		file = ownerFile{}
	}
	return d.decode(id, data, file)
}

// decode implements decodeOwner for the content of a file, but decodes only content that has changed.
// The caller may change the result.
func (d *decodedOwner) decode(id identity.Pod, data []byte, file ownerFile) (*OwnerRecord, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.data == nil || !bytes.Equal(data, d.data) {
		r, err := decodeOwner(id, data)
		if err != nil {
			return nil, err
		}
		d.data, d.record = data, r
	}
	d.file = file
	return d.record.clone(), nil
}

// writeOwner writes a pod's owner record. The pod's lock must be held. It does not sync the file,
// because no process that owns the pod survives a crash of the host.
func writeOwner(layout identity.Layout, id identity.Pod, r OwnerRecord) error {
	data, err := json.Marshal(r)
	if err == nil {
		err = os.MkdirAll(layout.Owners(), 0o750)
	}
	if err == nil {
		err = hostfile.WriteUnsynced(layout.Owner(id), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("pod %s: write its owner: %w", id, err)
	}
	return nil
}

// removeOwner removes the owner record and the history of a pod after podrun has removed the pod
// completely. The pod's lock must be held.
func removeOwner(layout identity.Layout, id identity.Pod) error {
	if err := removeHistory(layout, id); err != nil {
		return err
	}
	if err := os.Remove(layout.Owner(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("pod %s: remove its owner: %w", id, err)
	}
	removeTemporary(layout.Owners(), "."+filepath.Base(layout.Owner(id))+".")
	removeTemporary(layout.Claims(), "."+claimPrefix(id))
	removeEndedClaims(layout, id)
	return nil
}

// removeEndedClaims removes the claim files of processes that were killed before they wrote the
// owner record, or whose owner record no longer exists. The pod's lock must be held.
func removeEndedClaims(layout identity.Layout, id identity.Pod) {
	// If the directory cannot be read, a sweep removes the files later.
	entries, _ := os.ReadDir(layout.Claims())
	for _, e := range entries {
		if path := filepath.Join(layout.Claims(), e.Name()); strings.HasPrefix(e.Name(), claimPrefix(id)) && !IsLocked(path) {
			// If the removal fails, a sweep removes the file later.
			_ = os.Remove(path)
		}
	}
}

// removeTemporary removes temporary files that a process left behind because it was killed before it
// renamed them. Their names in dir are prefix followed by digits (os.CreateTemp). The caller holds
// the lock under which processes create these files, so none of the files belongs to a running
// process.
func removeTemporary(dir, prefix string) {
	// If the directory cannot be read, a sweep removes the files later.
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if random, ok := strings.CutPrefix(e.Name(), prefix); ok && strings.Trim(random, "0123456789") == "" {
			// If the removal fails, a sweep removes the file later.
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// Live reports whether the owner's process still holds its claim on the pod.
func (r *OwnerRecord) Live(layout identity.Layout) bool {
	return r != nil && r.Claim != "" && IsLocked(filepath.Join(layout.Claims(), filepath.Base(r.Claim)))
}

// killed reports whether the owner's process ended without releasing its claim: the claim file exists,
// but no process has locked it. A sweep keeps the file as long as the owner record names it.
func (r *OwnerRecord) killed(layout identity.Layout) bool {
	if r == nil || r.Claim == "" {
		return false
	}
	path := filepath.Join(layout.Claims(), filepath.Base(r.Claim))
	_, err := os.Lstat(path)
	return err == nil && !IsLocked(path)
}

// sweepClaims removes the claims of processes that have ended. It keeps claims that owner records
// name, because they show that the owner was killed.
func sweepClaims(layout identity.Layout) error {
	return sweepDir(layout.Claims(), func(name string) {
		path := filepath.Join(layout.Claims(), name)
		if IsLocked(path) {
			return
		}
		if at := strings.LastIndexByte(name, '_'); at > 0 {
			if id, ok := lockedPod(name[:at]); ok {
				if r, err := ReadOwner(layout, id); err != nil || r != nil && r.Claim == name {
					return
				}
			}
		}
		_ = os.Remove(path) // the next sweep tries again
	})
}

// claimText returns the content of a claim file. It names the incarnation of the pod. It also
// states whether the command requires the pod to exist, like apply, or only observes the pod, like
// wait.
func claimText(keeps bool, incarnation string) string {
	if keeps {
		return "keeps " + incarnation
	}
	return "attends " + incarnation
}

// claimMaxBytes is the maximum size of a claim file.
const claimMaxBytes = 128

// claimPrefix returns the prefix of the names of a pod's claim files. These prefixes are
// unambiguous, because pod names never contain an underscore.
func claimPrefix(id identity.Pod) string { return filepath.Base(identity.Layout{}.Owner(id)) + "_" }

// claimed reports whether another running command has a claim on the pod. The argument mine is the
// claim of this command, or nil.
func claimed(layout identity.Layout, id identity.Pod, mine *LockedFile) bool {
	// An error means that the directory does not exist, so there are no claims.
	entries, _ := os.ReadDir(layout.Claims())
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return strings.HasPrefix(e.Name(), claimPrefix(id)) && (mine == nil || e.Name() != mine.name()) && IsLocked(filepath.Join(layout.Claims(), e.Name()))
	})
}

// KeptByOthers reports whether another running command requires that this incarnation of the pod
// exists. The argument mine is the claim of this command, or nil.
func KeptByOthers(layout identity.Layout, id identity.Pod, mine *LockedFile, incarnation string) (bool, error) {
	entries, err := os.ReadDir(layout.Claims())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("pod %s: list the claims of other commands: %w", id, err)
	}
	for _, e := range entries {
		path := filepath.Join(layout.Claims(), e.Name())
		if !strings.HasPrefix(e.Name(), claimPrefix(id)) || mine != nil && e.Name() == mine.name() || !IsLocked(path) {
			continue
		}
		if data, err := hostfile.ReadNoFollow(context.Background(), path, claimMaxBytes); err == nil && string(data) == claimText(true, incarnation) {
			return true, nil
		}
	}
	return false, nil
}

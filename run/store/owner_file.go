package store

import (
	"context"
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
	"github.com/podrun/podrun/internal/statefile"
)

// ownerRecords are the owner records of pods. If a record is corrupt, no command owns the pod. A record has
// an entry for each container that podrun is stopping, and a pod has at most 1,000 containers. It is not
// synced, because no process that owns the pod survives a crash of the host.
var ownerRecords = statefile.DeclareKeyed(statefile.Keyed[OwnerRecord]{
	Dir: identity.Layout.Owners,
	Kind: &statefile.Kind[OwnerRecord]{
		What: "the owner record of a pod", Files: "owners/<namespace>_<name>", Scope: statefile.OfPod,
		On: statefile.Answers{
			Absent:     "no command owns the pod",
			Corrupt:    statefile.Ignore,
			Unreadable: statefile.Refuse,
			Newer:      statefile.Refuse,
		},
		Format: statefile.Field, Field: "schema", Newest: ownerSchema, Mode: 0o600, DirMode: 0o750, Unsynced: true,
	},
})

// ReadOwner reads a pod's owner record. It returns nil if there is none or if it is corrupt: no
// command then owns the pod. The error is of kind Refused if a newer version of podrun wrote the
// record.
func ReadOwner(layout identity.Layout, id identity.Pod) (*OwnerRecord, error) {
	r, _, err := ownerRecords.Get(context.Background(), layout, id)
	return r, ownerError(id, err)
}

func ownerError(id identity.Pod, err error) error {
	switch {
	case IsNewer(err):
		return &problem.Error{Kind: problem.Refused, Object: "pod " + id.String(), Err: err, Hint: "use the newer podrun that wrote it"}
	case err != nil:
		return fmt.Errorf("pod %s: %w", id, err)
	}
	return nil
}

// decodedOwner contains the last owner record that a process read. It avoids reading and decoding a record
// that has not changed: a waiting process reads the record ten times per second, and each probe reads it
// twice.
type decodedOwner struct {
	mu     sync.Mutex
	record *OwnerRecord // nil if the record is corrupt
	file   ownerFile    // the file that contains record; the zero value if the file is not known for certain
}

// ownerFile identifies the content of an owner record: each write creates a new file.
type ownerFile struct {
	dev, inode uint64
	size       int64
	changed    unix.Timespec // inode change time
}

// settledOwner is the age after which an ownerFile identifies the content of the file: two ticks of the
// kernel's clock, which are at most 10 ms long. For two changes within one tick, a file system may record
// the same time and reuse the inode.
const settledOwner = 20 * time.Millisecond

// statOwner returns the file of a pod's owner record. The result ok is false if a later change might
// not change the result.
func statOwner(path string) (f ownerFile, ok bool) {
	var s unix.Stat_t
	if unix.Lstat(path, &s) != nil {
		return f, false
	}
	f = ownerFile{dev: uint64(s.Dev), inode: s.Ino, size: s.Size, changed: s.Ctim}
	// File systems take the time of a change from this clock.
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now) != nil {
		return f, false
	}
	return f, now.Nano()-s.Ctim.Nano() > settledOwner.Nanoseconds()
}

// read returns the owner record of a pod, or nil if there is none. It reads the file only if the file
// has changed since the last call. The caller may change the result.
func (d *decodedOwner) read(layout identity.Layout, id identity.Pod) (*OwnerRecord, error) {
	file, settled := statOwner(layout.Owner(id))
	d.mu.Lock()
	defer d.mu.Unlock()
	if settled && d.file == file {
		return d.record.clone(), nil
	}
	r, err := ReadOwner(layout, id)
	if err != nil {
		return nil, err
	}
	// r is the content of this file only if the file was the same before and after the read.
	if after, _ := statOwner(layout.Owner(id)); !settled || after != file {
		file = ownerFile{}
	}
	d.record = r
	d.file = file
	return r.clone(), nil
}

// writeOwner writes a pod's owner record. The pod's lock must be held.
func writeOwner(layout identity.Layout, id identity.Pod, r OwnerRecord) error {
	return ownerRecords.Put(layout, id, r)
}

// removeOwner removes the owner record and the history of a pod after podrun has removed the pod
// completely. The pod's lock must be held.
func removeOwner(layout identity.Layout, id identity.Pod) error {
	if err := removeHistory(layout, id); err != nil {
		return err
	}
	if err := ownerRecords.Delete(layout, id); err != nil {
		return err
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
		if path := filepath.Join(layout.Claims(), e.Name()); strings.HasPrefix(e.Name(), claimPrefix(id)) && !hostfile.IsLocked(path) {
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
	return r != nil && r.Claim != "" && hostfile.IsLocked(filepath.Join(layout.Claims(), filepath.Base(r.Claim)))
}

// killed reports whether the owner's process ended without releasing its claim: the claim file exists,
// but no process has locked it. A sweep keeps the file as long as the owner record names it.
func (r *OwnerRecord) killed(layout identity.Layout) bool {
	if r == nil || r.Claim == "" {
		return false
	}
	path := filepath.Join(layout.Claims(), filepath.Base(r.Claim))
	_, err := os.Lstat(path)
	return err == nil && !hostfile.IsLocked(path)
}

// sweepClaims removes the claims of processes that have ended. It keeps claims that owner records
// name, because they show that the owner was killed.
func sweepClaims(layout identity.Layout) error {
	return sweepDir(layout.Claims(), func(name string) {
		path := filepath.Join(layout.Claims(), name)
		if hostfile.IsLocked(path) {
			return
		}
		if at := strings.LastIndexByte(name, '_'); at > 0 {
			if id, ok := identity.LockedPod(name[:at]); ok {
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
		return strings.HasPrefix(e.Name(), claimPrefix(id)) && (mine == nil || e.Name() != mine.name()) && hostfile.IsLocked(filepath.Join(layout.Claims(), e.Name()))
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
		if !strings.HasPrefix(e.Name(), claimPrefix(id)) || mine != nil && e.Name() == mine.name() || !hostfile.IsLocked(path) {
			continue
		}
		if data, err := hostfile.ReadNoFollow(context.Background(), path, claimMaxBytes); err == nil && string(data) == claimText(true, incarnation) {
			return true, nil
		}
	}
	return false, nil
}

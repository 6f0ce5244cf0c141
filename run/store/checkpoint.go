package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/statefile"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/volume"
)

// WriteCheckpoint writes a pod's checkpoint. The first line of the file, the head, is the same in all versions; the
// schema version follows it. If c is InMemory, WriteCheckpoint writes the complete checkpoint to a file in memory.
// The file on disk then contains the name of the file in memory instead of the data of Secrets, so that the two files
// always match, even if podrun is killed between the two writes. The error is of kind Refused if the checkpoint is
// larger than identity.MaxCheckpoint, or if the file system in memory is full.
func WriteCheckpoint(layout identity.Layout, id identity.Pod, c manifest.Checkpoint) error {
	if err := ReserveCheckpoint(layout, id, c); err != nil {
		return err
	}
	return SyncCheckpoint(layout, id)
}

// SyncCheckpoint makes a checkpoint that ReserveCheckpoint wrote durable.
func SyncCheckpoint(layout identity.Layout, id identity.Pod) error {
	if err := volume.SyncCheckpoint(layout, id.UID); err != nil {
		return fmt.Errorf("write the checkpoint of pod %s: %w", id, err)
	}
	return nil
}

// ReserveCheckpoint is WriteCheckpoint for a new pod, without a sync. Other processes see the pod's
// reservation, but the checkpoint is not durable until SyncCheckpoint is called. A sync takes
// milliseconds, and podrun must not hold the node's lock that long.
func ReserveCheckpoint(layout identity.Layout, id identity.Pod, c manifest.Checkpoint) error {
	if c.SecretsLost {
		return LostSecrets(id)
	}
	data, err := c.Marshal()
	if err != nil {
		return fmt.Errorf("write the checkpoint of pod %s: %w", id, err)
	}
	const head = 1 << 10 // maximum size of the first lines, in bytes
	if len(data) > identity.MaxCheckpoint-head {
		return &problem.Error{Kind: problem.Refused, Object: "pod " + id.String(), Op: "write the checkpoint",
			Err:  fmt.Errorf("the pod and the objects it uses take %d MiB, more than the limit of %d MiB", len(data)>>20, identity.MaxCheckpoint>>20),
			Hint: "use smaller ConfigMaps and Secrets"}
	}
	token := ""
	if c.InMemory {
		token = RandomHex(16)
		if err = writeSecretFile(layout, filepath.Join(layout.Secrets().Pod(id.UID), token), data); err == nil {
			data, err = c.WithoutSecrets().Marshal()
		}
		data = identity.AddSecretsToken(token, data)
	} else {
		data = identity.AddSchema(identity.PlainSchema, data)
	}
	if err == nil {
		err = volume.WriteCheckpoint(layout, id.UID, append([]byte(identity.CheckpointHead+id.String()+"\n"), data...))
	}
	if err == nil {
		err = dropSecrets(layout, id.UID, token)
	}
	if err != nil {
		return fmt.Errorf("write the checkpoint of pod %s: %w", id, err)
	}
	return nil
}

// ReadCheckpoint reads a pod's checkpoint for a caller that changes the pod. It returns nil if there is
// none. The error is of kind Refused if a newer version of podrun wrote one of the pod's state files. Other
// errors are those of ViewCheckpoint.
func ReadCheckpoint(layout identity.Layout, uid string) (*manifest.Checkpoint, error) {
	if err := checkSchemas(layout, uid); err != nil {
		return nil, err
	}
	return ViewCheckpoint(layout, uid)
}

// ViewCheckpoint reads a pod's checkpoint for a caller that shows or removes the pod. It returns nil if
// there is none. If a newer version of podrun wrote the checkpoint, it returns the fields that this version
// supports. It sets the objects' defaults, because the version that wrote them may have had fewer defaults.
// It sets SecretsLost if podrun kept the pod's Secrets in memory and has lost them. An error, of kind
// Runtime, means that the checkpoint is corrupt; other pods are not affected.
func ViewCheckpoint(layout identity.Layout, uid string) (*manifest.Checkpoint, error) {
	c, err := viewCheckpoint(layout, uid)
	for range 2 {
		if c == nil || !c.SecretsLost {
			break
		}
		// Between the two reads, another process may have written the checkpoint, which then names another
		// file.
		c, err = viewCheckpoint(layout, uid)
	}
	if err != nil {
		id, _ := discover.StoredPod(context.Background(), layout, uid)
		return nil, BrokenCheckpoint(id, err)
	}
	if c != nil {
		c.Default()
	}
	return c, nil
}

// viewCheckpoint implements ViewCheckpoint, except that it does not set defaults or wrap the error.
func viewCheckpoint(layout identity.Layout, uid string) (*manifest.Checkpoint, error) {
	found := checkpointFile.Examine(context.Background(), layout.Pod(uid).Checkpoint())
	c := found.Value
	switch {
	case found.State == statefile.Absent, found.State == statefile.Newer && c.Pod == nil: // this version does not support the format
		return nil, nil
	case found.State == statefile.Corrupt, found.State == statefile.Unreadable:
		return nil, unnamed(found.Fault)
	case c.token == "":
		return &c.Checkpoint, nil
	}
	whole := secretCheckpointFile.Examine(context.Background(), filepath.Join(layout.Secrets().Pod(uid), filepath.Base(c.token)))
	switch whole.State {
	case statefile.Absent:
		c.SecretsLost = true
	case statefile.Intact:
		c.Checkpoint = whole.Value
	default:
		return nil, unnamed(whole.Fault)
	}
	c.InMemory = true
	return &c.Checkpoint, nil
}

// unnamed returns a fault without the name of the content, because BrokenCheckpoint adds it.
func unnamed(f *statefile.Fault) *statefile.Fault {
	out := *f
	out.What = ""
	return &out
}

// storedCheckpoint is the content of a checkpoint's file. If token is not "", the Secrets are in memory.
type storedCheckpoint struct {
	manifest.Checkpoint
	token string // name of the file in memory
}

var checkpointFile = statefile.Declare(statefile.Kind[storedCheckpoint]{
	What: "the checkpoint of a pod", Files: "pods/<uid>/pod.yaml", Scope: statefile.OfPod,
	On:    statefile.Answers{Absent: "no such pod", Corrupt: statefile.Refuse, Unreadable: statefile.Refuse, Newer: statefile.Refuse},
	Paths: statefile.EachPod(identity.PodDir.Checkpoint), Limit: identity.MaxCheckpoint,
	Decode: func(data []byte) (c storedCheckpoint, err error) {
		c.token, data = identity.CutSecretsToken(data)
		if c.Checkpoint, err = manifest.Unmarshal(data); err != nil {
			c.Checkpoint = manifest.Checkpoint{} // a part of a pod must not count as the pod
		}
		return c, err
	},
})

// secretCheckpointFile is the complete checkpoint of a pod whose Secrets are in memory. It has no version,
// because an upgrade does not replace the checkpoint that names the file.
var secretCheckpointFile = statefile.Declare(statefile.Kind[manifest.Checkpoint]{
	What: "the checkpoint of a pod in memory", Files: "(in memory) pods/<uid>/<random>", Scope: statefile.OfPod,
	On: statefile.Answers{
		Absent:     "the Secrets are lost: podrun starts no containers",
		Corrupt:    statefile.Refuse,
		Unreadable: statefile.Refuse,
		Newer:      statefile.Ignore,
	},
	Paths:  secretFiles,
	Format: statefile.Unversioned, Limit: identity.MaxCheckpoint, Decode: manifest.Unmarshal,
})

// secretFiles returns the checkpoints in memory.
func secretFiles(l identity.Layout) (out []string) {
	pods, _ := os.ReadDir(l.Secrets().Pods()) // the directory exists only if Secrets are in memory
	for _, p := range pods {
		files, _ := os.ReadDir(l.Secrets().Pod(p.Name()))
		for _, f := range files {
			if !strings.HasPrefix(f.Name(), ".") { // being written
				out = append(out, filepath.Join(l.Secrets().Pod(p.Name()), f.Name()))
			}
		}
	}
	return out
}

// BrokenCheckpoint returns the error (kind Runtime) of a pod whose checkpoint
// cannot be read. Its hint advises to delete the pod only if the checkpoint is lost.
func BrokenCheckpoint(id identity.Pod, err error) error {
	out := &problem.Error{Kind: problem.Runtime, Object: identity.ObjectName(id), Op: "read its checkpoint", Err: err}
	switch {
	case statefile.LacksResources(err):
		out.Hint = "run the command again"
	case IsCorrupt(err):
		out.Hint = identity.DeleteHint(id)
	default:
		out.Hint = "make the file readable, or " + identity.DeleteHint(id)
	}
	return out
}

// BrokenCause returns the reason why a checkpoint cannot be read, without the pod's name.
func BrokenCause(err error) error {
	if e, ok := errors.AsType[*problem.Error](err); ok {
		return e.Err
	}
	return err
}

// IsCorrupt reports whether an error means that the content of a state file is lost. It returns false if
// the file cannot be read, for example because of EMFILE, because the content may be intact.
func IsCorrupt(err error) bool { return statefile.IsCorrupt(err) }

// StoredPods lists the pods that have a checkpoint. It reads their names with discover.StoredPod.
func StoredPods(layout identity.Layout) ([]identity.Pod, error) {
	entries, err := os.ReadDir(layout.PodsDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the pods of %s: %w", layout.PodsDir(), err)
	}
	var pods []identity.Pod
	for _, e := range entries {
		if !identity.SafeUID(e.Name()) {
			// podrun does not create directories with such names
			continue
		}
		if id, ok := discover.StoredPod(context.Background(), layout, e.Name()); ok {
			pods = append(pods, id)
		}
	}
	return pods, nil
}

// StoredNamed lists the pods with this namespace and name that have a checkpoint. The result may
// contain other pods. StoredNamed reads only the directory of the pod in the owner record. This
// suffices because podrun writes the record before it creates the directory, and removes the
// directory before the record. If the record or the directory does not exist, StoredNamed returns
// StoredPods.
func StoredNamed(layout identity.Layout, id identity.Pod) ([]identity.Pod, error) {
	r, err := ReadOwner(layout, id)
	if err != nil || r == nil || !identity.SafeUID(r.UID) {
		return StoredPods(layout)
	}
	stored, ok := discover.StoredPod(context.Background(), layout, r.UID)
	if id.UID = r.UID; !ok || stored != id {
		return StoredPods(layout)
	}
	return []identity.Pod{stored}, nil
}

// Sweep removes leftovers of killed podrun processes: empty pod directories without a checkpoint, which no command
// finds, and the locks, owner records, claims and reservations of pods and processes that no longer exist. The caller
// must hold the node's lock, because podrun creates every pod's directory under that lock.
func Sweep(layout identity.Layout) error {
	entries, err := os.ReadDir(layout.PodsDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list the pods of %s: %w", layout.PodsDir(), err)
	}
	dirs := host.PodDirs{Count: len(entries)}
	for _, e := range entries {
		if e.IsDir() {
			dirs.Unnamed = append(dirs.Unnamed, e.Name())
		}
	}
	return SweepDirs(layout, dirs)
}

// SweepAll is Sweep without a tolerance: no lock and no record of a pod that no longer exists remains for a later Sweep.
func SweepAll(layout identity.Layout) error {
	return errors.Join(Sweep(layout), sweepLocks(layout, 0))
}

// SweepDirs is Sweep with the pod directories in the host's facts. The caller must have read these facts
// after it acquired the node's lock. Reading thousands of directories again would take a tenth of the
// CPU time of an apply.
func SweepDirs(layout identity.Layout, dirs host.PodDirs) error {
	count, err := sweepDirs(layout, dirs)
	if err != nil {
		return err
	}
	// There are the node's lock and one lock for each pod on this host.
	if err := sweepLocks(layout, count+1+count/sweepShare); err != nil {
		return err
	}
	// podrun creates these files under the node's lock.
	removeTemporary(layout.Reservations(), ".")
	return errors.Join(sweepLockedFiles(layout.Reservations()), sweepClaims(layout), sweepSecrets(layout))
}

// sweepDirs removes empty pod directories without a checkpoint, and returns the number of remaining
// directories.
func sweepDirs(layout identity.Layout, dirs host.PodDirs) (count int, err error) {
	count = dirs.Count
	for _, uid := range dirs.Unnamed {
		if _, err := os.Lstat(layout.Pod(uid).Checkpoint()); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		removed, err := sweepPodDir(string(layout.Pod(uid)))
		if err != nil {
			return count, err
		}
		if removed {
			count--
		}
	}
	return count, nil
}

// sweepPodDir removes a pod directory without a checkpoint if it contains only empty directories and
// temporary files of a checkpoint.
func sweepPodDir(dir string) (removed bool, err error) {
	inner, err := os.ReadDir(dir)
	if err != nil {
		// Another process has removed it.
		return false, nil
	}
	for _, i := range inner {
		if i.IsDir() || strings.HasPrefix(i.Name(), ".pod.yaml.") {
			// If the directory is not empty, its removal fails, and the pod directory also remains.
			_ = os.Remove(filepath.Join(dir, i.Name()))
		}
	}
	err = os.Remove(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) {
		return false, fmt.Errorf("remove leftovers of a killed podrun: %w", err)
	}
	return err == nil, nil
}

// sweepShare limits how often sweepLocks reads the names of all pods, which it needs to find leftover
// locks. It tolerates one leftover lock for each sweepShare pods. Otherwise each apply would read all
// names because of the lock of the pod that it is creating.
const sweepShare = 50

// sweepLocks removes the locks, owner records and histories of pods that are no longer on this host. Otherwise
// every run with a generated name would leave a lock behind. It keeps a lock if a process holds it. The caller
// must hold the node's lock, because podrun creates every pod's directory under that lock. It does nothing if there are
// at most tolerated names.
func sweepLocks(layout identity.Layout, tolerated int) error {
	names := map[string]bool{}
	for _, dir := range []string{string(layout.Locks()), layout.Owners(), layout.Histories(), layout.Updates()} {
		if err := sweepDir(dir, func(name string) { names[name] = true }); err != nil {
			return err
		}
	}
	if len(names) <= tolerated {
		return nil
	}
	pods, err := StoredPods(layout)
	if err != nil {
		return err
	}
	for _, id := range pods {
		delete(names, filepath.Base(layout.Locks().Pod(id)))
	}
	for name := range names {
		if id, ok := identity.LockedPod(name); ok {
			if err := sweepLock(layout, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// sweepLock removes the lock file, the owner record and the history of a pod that is not on this host, unless
// a process holds the lock or the owner is live.
func sweepLock(layout identity.Layout, id identity.Pod) error {
	f, err := LockFile(layout.Locks().Pod(id))
	if f == nil || err != nil {
		return err
	}
	defer func() { _ = hostfile.Unlock(f) }()
	if r, err := ReadOwner(layout, id); err == nil && !r.Live(layout) {
		// If a removal fails, a later sweep tries again.
		_ = removeOwner(layout, id)
		_ = os.Remove(layout.Locks().Pod(id))
	}
	return nil
}

// HasCheckpoint reports whether a pod has a checkpoint file, valid or not. It also returns true if the
// lookup of the file fails.
func HasCheckpoint(layout identity.Layout, uid string) bool {
	_, err := os.Lstat(layout.Pod(uid).Checkpoint())
	return !errors.Is(err, fs.ErrNotExist)
}

package embedded

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/podrun/podrun/cri"
)

// A containerd that is killed while it creates a snapshot may leave a directory without a record: it renames the
// directory to the number of the snapshot before it commits the record. The next snapshot gets the same number, and the
// rename fails with EEXIST, for all images and containers, until containerd collects garbage of snapshots, which requires
// that a snapshot is removed. containerd's service has no call for this (Cleanup is not implemented for its metadata).

// lostSnapshot matches the error of the rename. The submatch is the number of the lost snapshot.
var lostSnapshot = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`/snapshots/new-[0-9]+ \S*/snapshots/([0-9]+): file exists$`)
})

// trialSnapshot is the key of the snapshot that removeLostSnapshot creates.
const trialSnapshot = "podrun.dev/trial"

// removeLostSnapshot removes the directory of a snapshot that the last containerd has not recorded. To find it, it
// creates and removes a snapshot. There is at most one, because containerd creates one snapshot at a time. Call it with
// the layout's lock held.
func removeLostSnapshot(ctx context.Context, l Layout, snapshotter string) error {
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(ctx, "containerd-namespace", "k8s.io"), checkWithin)
	defer cancel()
	client, err := cri.Dial(l.Endpoint(), "", AnswerWithin)
	if err != nil {
		return err
	}
	defer client.Close()
	snapshots := snapshotsapi.NewSnapshotsClient(client.Images.Conn())
	remove := &snapshotsapi.RemoveSnapshotRequest{Snapshotter: snapshotter, Key: trialSnapshot}
	_, err = snapshots.Prepare(ctx, &snapshotsapi.PrepareSnapshotRequest{Snapshotter: snapshotter, Key: trialSnapshot})
	if err == nil {
		if _, err = snapshots.Remove(ctx, remove); status.Code(err) == codes.NotFound {
			return nil // containerd has collected it as garbage, because nothing refers to it
		}
		return err
	}
	lost := lostSnapshot().FindStringSubmatch(status.Convert(err).Message())
	if lost == nil {
		_, _ = snapshots.Remove(ctx, remove) // of a command that was killed here
		return nil                           // the problem concerns whoever needs a snapshot
	}
	return removeDirectory(filepath.Join(l.snapshotter(snapshotter), "snapshots", lost[1]))
}

// removeDirectory removes the directory of a lost snapshot. While it exists, no snapshot can get its number. The
// rename is atomic, so that it does not affect a snapshot that gets the number later.
func removeDirectory(path string) error {
	aside := filepath.Join(filepath.Dir(path), "new-lost") // containerd's garbage collection removes it, too
	if err := os.RemoveAll(aside); err != nil {
		return err
	}
	err := unix.Rename(path, aside)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // containerd has collected garbage
	}
	if err != nil {
		return &os.PathError{Op: "rename", Path: path, Err: err}
	}
	return os.RemoveAll(aside)
}

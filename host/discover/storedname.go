package discover

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
)

// maxHead limits the first line of a checkpoint, in bytes. A namespace and a name have at most
// 253 bytes each.
const maxHead = 4 << 10

// StoredPod returns the pod to which a directory belongs. The first line of the checkpoint names
// it. If this line is corrupt, StoredPod takes the name from the pod's log directory. If there is
// no log directory either, the namespace is empty and the name is the UID. found is false if the
// directory has no checkpoint.
func StoredPod(ctx context.Context, layout identity.Layout, uid string) (id identity.Pod, found bool) {
	id, err := headOf(ctx, layout, uid)
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return id, err == nil
	}
	// Without the log directory, the pod's name remains unknown.
	logs, _ := hostfile.Entries(layout.PodLogsDir, "", "_"+uid)
	for _, dir := range logs {
		parts := strings.Split(filepath.Base(dir), "_")
		if len(parts) != 3 || layout.PodLogsDir == "" {
			continue
		}
		if id, ok := named(parts[0], parts[1], uid); ok {
			return id, true
		}
	}
	return identity.Pod{Name: uid, UID: uid}, true
}

// headOf reads the first line of a checkpoint.
func headOf(ctx context.Context, layout identity.Layout, uid string) (identity.Pod, error) {
	head, err := hostfile.ReadHead(ctx, layout.Pod(uid).Checkpoint(), maxHead)
	namespace, name, marked := identity.HeadPod(head)
	id, ok := named(namespace, name, uid)
	if err == nil && (!marked || !ok) {
		err = errors.New("its first line does not name a pod")
	}
	return id, err
}

// named returns the pod if its namespace and name are safe in a path.
func named(namespace, name, uid string) (identity.Pod, bool) {
	return identity.Pod{Namespace: namespace, Name: name, UID: uid}, identity.SafeName(namespace) && identity.SafeName(name)
}

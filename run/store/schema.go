package store

import (
	"context"
	"os"
	"path/filepath"

	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/statefile"
)

// stateFiles returns the state files of a pod that have a schema version. It omits two files: the
// journal, because its lines are independent, and userns, because it has the kubelet's format.
func stateFiles(l identity.Layout, uid string) []string {
	dir := l.Pod(uid)
	files := []string{
		dir.Checkpoint(), dir.StoppedMark(), dir.Devices(), dir.Restarted(), dir.PendingRestarts(), dir.State(), dir.LegacyProbes(), dir.LegacyResize(),
		filepath.Join(l.ImageBackOff(), uid+".json"),
	}
	// readHooks reports an error of this directory
	hooks, _ := os.ReadDir(dir.HookMarks())
	for _, e := range hooks {
		files = append(files, filepath.Join(dir.HookMarks(), e.Name()))
	}
	return files
}

// checkSchemas returns an error if a newer version of podrun wrote one of the pod's state files. This
// version must not change such a pod, because it could misread the file, and would drop unknown
// fields when it writes the file.
func checkSchemas(l identity.Layout, uid string) error {
	for _, file := range stateFiles(l, uid) {
		if err := statefile.CheckVersion(file); err != nil {
			return newerError(l, uid, err)
		}
	}
	return nil
}

// newerError returns the error of an attempt to change a pod that has a state file of a newer podrun
// version.
func newerError(l identity.Layout, uid string, err error) error {
	id, _ := discover.StoredPod(context.Background(), l, uid)
	return &problem.Error{Kind: problem.Refused, Object: identity.ObjectName(id), Err: err,
		Hint: "use the newer podrun version that wrote it; 'podrun delete' of this version removes the pod"}
}

// IsNewer reports whether an error means that a newer version of podrun wrote a state file.
func IsNewer(err error) bool { return statefile.IsNewer(err) }

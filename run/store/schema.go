package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
)

// WriteState atomically writes a state file of a pod, with its schema version.
func WriteState(path string, data []byte, mode fs.FileMode) error {
	return hostfile.Write(path, identity.AddSchema(data), mode)
}

// KeepState durably writes a value as a JSON state file. It creates the file's directory if necessary.
// If exists is false, it removes the file instead.
func KeepState(path string, value any, exists bool) error {
	if !exists {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	data, err := json.Marshal(value)
	if err == nil {
		err = hostfile.MakeDirsDurable(filepath.Dir(path), 0o750)
	}
	if err == nil {
		err = WriteState(path, data, 0o640)
	}
	return err
}

// WriteStateUnsynced is WriteState without a sync: after a power failure, the file may have its
// previous content or be empty.
func WriteStateUnsynced(path string, data []byte, mode fs.FileMode) error {
	return hostfile.WriteUnsynced(path, identity.AddSchema(data), mode)
}

// maxState is the maximum size in bytes of a state file that is not a checkpoint. Such a file has at
// most one line per container.
const maxState = 1 << 20

// ReadState reads the content of a state file of any schema version. It accepts a newer version,
// because commands that only show or remove a pod use the parts that they can read. ReadCheckpoint
// refuses a newer version.
func ReadState(path string) ([]byte, error) {
	data, err := hostfile.ReadNoFollow(context.Background(), path, maxState)
	if err != nil {
		return nil, err
	}
	content, _ := identity.CutSchema(data)
	return content, nil
}

// ReadJSON reads the value of a state file. It returns the zero value if the file does not exist, or if
// podrun cannot decode a file that a newer version of podrun wrote. The argument what describes the
// content in errors.
func ReadJSON[T any](file, what string) (value T, err error) {
	var none T
	data, err := ReadState(file)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &value)
	}
	switch {
	case err == nil:
		return value, nil
	case StateNewer(file):
		return none, nil
	}
	return none, fmt.Errorf("read %s: %w", what, InFile(file, err))
}

// InFile adds the name of the file to an error that does not contain it.
func InFile(file string, err error) error {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return err
	}
	return fmt.Errorf("%s: %w", file, err)
}

// StateNewer reports whether a newer version of podrun wrote a state file, so that its format may be
// unknown.
func StateNewer(path string) bool {
	version, err := stateVersion(path)
	return err == nil && version > identity.Schema
}

// stateFiles returns the state files of a pod that have a schema version. It omits two files: the
// journal, because its lines are independent, and userns, because it has the kubelet's format.
func stateFiles(l identity.Layout, uid string) []string {
	files := []string{
		l.Checkpoint(uid), l.StoppedMark(uid), l.Devices(uid), l.Restarted(uid), l.PendingRestarts(uid), l.State(uid), l.LegacyProbes(uid), l.LegacyResize(uid),
		filepath.Join(l.ImageBackOff(), uid+".json"),
	}
	// readHooks reports an error of this directory
	hooks, _ := os.ReadDir(l.HookMarks(uid))
	for _, e := range hooks {
		files = append(files, filepath.Join(l.HookMarks(uid), e.Name()))
	}
	return files
}

// checkSchemas returns an error if a newer version of podrun wrote one of the pod's state files. This
// version must not change such a pod, because it could misread the file, and would drop unknown
// fields when it writes the file.
func checkSchemas(l identity.Layout, uid string) error {
	for _, file := range stateFiles(l, uid) {
		version, err := stateVersion(file)
		if err != nil {
			// The file does not exist, or its reader reports the error.
			continue
		}
		if err := identity.CheckSchema(file, version); err != nil {
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
func IsNewer(err error) bool {
	_, newer := errors.AsType[*identity.SchemaError](err)
	return newer
}

// stateVersion reads the schema version of a state file. It reads only the beginning of the file.
func stateVersion(path string) (int, error) {
	const head = 4 << 10
	data, err := hostfile.ReadHead(context.Background(), path, head)
	if err != nil {
		return 0, err
	}
	_, version := identity.CutSchema(data)
	return version, nil
}

package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/podrun/podrun/internal/faultpoint"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/safepath"
)

// Modes of the pod's directories, which root owns (kubelet: makePodDataDirs).
const (
	dirMode  = 0o750
	openMode = 0o755 // directories between the pod's directory and a volume
)

// MountError is the failure to set up one volume.
type MountError struct {
	Volume string
	Err    error
}

// Error returns the failure with the volume's name.
func (e *MountError) Error() string { return fmt.Sprintf("volume %s: %v", e.Volume, e.Err) }

// Unwrap returns the cause.
func (e *MountError) Unwrap() error { return e.Err }

// Event returns the message of the kubelet's FailedMount event.
func (e *MountError) Event() string {
	return fmt.Sprintf("MountVolume.SetUp failed for volume %q : %v", e.Volume, e.Err)
}

// Apply creates the pod's directories and volumes. It can be repeated. The caller should register
// Remove as the undo step before it calls Apply, because Remove also removes partial results. Apply
// continues after errors. The error is a *problem.Error that wraps one *MountError for each volume
// that failed.
func Apply(ctx context.Context, p Plan) error {
	if err := makePodDirs(p); err != nil {
		return &problem.Error{Kind: problem.Runtime, Object: "pod " + p.ID.String(), Op: "create its directories", Err: err}
	}
	failed := makeAll(ctx, p.Volumes)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(failed) == 0 {
		return nil
	}
	return &problem.Error{Kind: kindOfFailure(failed), Object: "pod " + p.ID.String(), Op: "mount volumes", Err: errors.Join(failed...)}
}

// makersAtOnce is the maximum number of volumes that Apply sets up concurrently.
const makersAtOnce = 4

// makeAll sets up the volumes. It returns the failures in the order of the spec. One volume may
// require a path that another one creates, such as the directory of a FileOrCreate hostPath. The
// kubelet retries such a volume; makeAll retries it as long as other volumes succeed.
func makeAll(ctx context.Context, volumes []Volume) []error {
	errs := make([]error, len(volumes))
	var todo []int
	for i := range volumes {
		todo = append(todo, i)
	}
	for len(todo) > 0 && ctx.Err() == nil {
		makeEach(ctx, volumes, todo, errs)
		left := slices.DeleteFunc(slices.Clone(todo), func(i int) bool { return !wantsPath(errs[i]) })
		if len(left) == len(todo) {
			break
		}
		todo = left
	}
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// wantsPath reports whether a volume failed because of a missing path that another volume may
// create.
func wantsPath(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || lacks(err)
}

// makeEach sets up the volumes with the indices in todo concurrently. It stores the error of each
// volume in errs.
func makeEach(ctx context.Context, volumes []Volume, todo []int, errs []error) {
	var group errgroup.Group
	group.SetLimit(makersAtOnce)
	for _, i := range todo {
		group.Go(func() error {
			if errs[i] = nil; ctx.Err() != nil {
				return nil
			}
			if err := makeVolume(ctx, volumes[i]); err != nil {
				errs[i] = &MountError{Volume: volumes[i].Name, Err: err}
			}
			return nil
		})
	}
	// The functions of the group return nil.
	_ = group.Wait()
}

// makeVolume sets up one volume on the host. It can be repeated, even if containers already use the
// volume.
func makeVolume(ctx context.Context, v Volume) error {
	faultpoint.At("volume/" + v.Name + "/make")
	defer faultpoint.At("volume/" + v.Name + "/made")
	switch s := v.Setup; s.Kind {
	case SetupEmptyDir:
		return makeEmptyDir(ctx, v, s.EmptyDir)
	case SetupFiles:
		return makeFiles(ctx, v, s.Files)
	case SetupHostPath:
		return makeHostPath(ctx, v, s.HostPath)
	case SetupLocal:
		return makeLocal(ctx, v, s.Local)
	case SetupNFS:
		return makeNFS(ctx, v, s.NFS, mountByProgram)
	case SetupByRuntime:
		return nil
	}
	return fmt.Errorf("its plan has the unknown setup %q", v.Setup.Kind)
}

// lacks reports whether an error means that the host does not meet a requirement of the volume.
func lacks(err error) bool {
	_, check := errors.AsType[*CheckError](err)
	return check
}

// kindOfFailure returns Refused if every volume failed because the host does not meet its
// requirements, and Runtime otherwise.
func kindOfFailure(failed []error) problem.Kind {
	for _, err := range failed {
		if !lacks(err) {
			return problem.Runtime
		}
	}
	return problem.Refused
}

// MakePodDir creates the pod's directory and its plugins directory, in which podrun keeps its
// records of the pod. Admission calls it for one pod after the other; Apply creates the other
// directories.
func MakePodDir(p Plan) error {
	if err := os.MkdirAll(p.Layout.PodsDir(), dirMode); err != nil {
		return err
	}
	return makeDirs(p.Dir, p.Layout.Pod(p.ID.UID).Plugins())
}

// makePodDirs creates the pod's directory and the directories directly below it.
func makePodDirs(p Plan) error {
	if err := MakePodDir(p); err != nil {
		return err
	}
	return makeDirs(p.Layout.Pod(p.ID.UID).Volumes(), filepath.Join(p.Dir, "containers"))
}

func makeDirs(dirs ...string) error {
	for _, dir := range dirs {
		if err := safepath.MakeDir(dir, dirMode); err != nil {
			return err
		}
	}
	return nil
}

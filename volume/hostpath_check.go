package volume

import (
	"context"
	"errors"
	"io/fs"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/safepath"
)

// CheckError reports that a hostPath does not have the required type. Its message is the
// kubelet's.
type CheckError struct{ Message string }

// Error returns the kubelet's message.
func (e *CheckError) Error() string { return e.Message }

// hostPathChecks contains, for each hostPath type, the mode of a file of that type, the type's name
// in messages, and the function that creates a missing file of that type. The types and modes are
// the kubelet's (pkg/volume/hostpath).
var hostPathChecks = map[corev1.HostPathType]struct {
	mode  fs.FileMode
	words string
	make  func(path string) error
}{
	corev1.HostPathDirectory:         {fs.ModeDir, "a directory", nil},
	corev1.HostPathDirectoryOrCreate: {fs.ModeDir, "a directory", makeHostDir},
	corev1.HostPathFile:              {0, "a file", nil},
	corev1.HostPathFileOrCreate:      {0, "a file", makeHostFile},
	corev1.HostPathSocket:            {fs.ModeSocket, "a socket file", nil},
	corev1.HostPathCharDev:           {fs.ModeDevice | fs.ModeCharDevice, "a character device", nil},
	corev1.HostPathBlockDev:          {fs.ModeDevice, "a block device", nil},
}

// makeHostPath checks the path's type. It follows symlinks, as the kubelet does. It creates the
// path if the type requires this.
func makeHostPath(ctx context.Context, v Volume, h *HostPath) error {
	if h.Source != "" {
		return bindHostPath(ctx, v, h)
	}
	return h.make(ctx, v.HostPath)
}

func (h *HostPath) make(ctx context.Context, path string) error {
	err := h.check(ctx, path)
	if make := hostPathChecks[h.Type].make; err == nil && make != nil {
		if _, err := safepath.Stat(ctx, path); errors.Is(err, fs.ErrNotExist) {
			return make(path)
		}
	}
	return err
}

// bindHostPath binds the path at the volume's directory, unless it is already mounted, and if it exposes no private
// path.
func bindHostPath(ctx context.Context, v Volume, h *HostPath) error {
	mounted, err := safepath.IsMountPoint(ctx, v.HostPath)
	if err != nil || mounted {
		return err
	}
	if err := h.make(ctx, h.Source); err != nil {
		return err
	}
	source, err := openSource(ctx, h.Source, h.Private)
	if h.Type == corev1.HostPathUnset && errors.Is(err, fs.ErrNotExist) {
		// The runtime creates a missing path.
		if err = makeHostDir(h.Source); err == nil {
			source, err = openSource(ctx, h.Source, h.Private)
		}
	}
	if err != nil {
		return err
	}
	defer source.Close()
	return safepath.BindTree(source, v.HostPath)
}

// check returns an error if the path does not have the required type and cannot be created.
func (h *HostPath) check(ctx context.Context, path string) error {
	if h.Type == corev1.HostPathUnset {
		return nil
	}
	found, err := stat(ctx, path)
	if err != nil {
		return err
	}
	return checkError(h.problem(path, found))
}

// stat returns the facts about a path that Check requires. It follows symlinks. It returns an error
// only if ctx ends: the cause of ctx.
func stat(ctx context.Context, path string) (Path, error) {
	info, err := safepath.Stat(ctx, path)
	switch {
	case err == nil:
		return Path{Mode: info.Mode().Type()}, nil
	case ctx.Err() != nil:
		return Path{}, err
	case errors.Is(err, fs.ErrNotExist):
		return Path{Missing: true}, nil
	}
	return Path{Error: err.Error()}, nil
}

// checkError converts a message to a CheckError, and "" to nil.
func checkError(message string) error {
	if message == "" {
		return nil
	}
	return &CheckError{Message: message}
}

func makeHostDir(path string) error { return hostfile.MakeDirs(path, 0o755) }

func makeHostFile(path string) error { return hostfile.MakeFile(path, 0o644) }

package discover

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/safepath"
)

// readPaths reads the paths in volumes. If mounts is set, it also reads the mounts that contain
// them. If a file system does not respond, or the list of mounts is unreadable, it returns an
// error.
func (m machine) readPaths(paths []string, mounts bool) (map[string]host.Path, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	var all []*mountinfo.Info
	if mounts {
		var err error
		if all, err = safepath.Mounts(); err != nil {
			return nil, factError("read the mounts", err, "")
		}
	}
	out := map[string]host.Path{}
	for _, path := range paths {
		p, err := m.readPath(path, all)
		if err != nil {
			return nil, factError("read "+path, err, "")
		}
		out[path] = p
	}
	return out, nil
}

// readPath reads one path. If the context is canceled, it returns the context's cause.
func (m machine) readPath(path string, mounts []*mountinfo.Info) (host.Path, error) {
	type seen struct {
		path host.Path
		real string
	}
	s, err := safepath.Await(m.ctx, path, func() (s seen, _ error) {
		link, err := os.Lstat(m.path(path))
		s.path.Symlink = err == nil && link.Mode()&fs.ModeSymlink != 0
		info, err := os.Stat(m.path(path))
		switch {
		case err == nil:
			s.path.Mode = info.Mode().Type()
		case errors.Is(err, fs.ErrNotExist):
			s.path.Missing = true
		default:
			s.path.Error = err.Error()
		}
		if mounts != nil {
			s.real = m.realPath(path)
		}
		return s, nil
	})
	if err != nil {
		return host.Path{}, context.Cause(m.ctx)
	}
	if on := mountOf(mounts, s.real); on != nil {
		s.path.MountPoint, s.path.Shared, s.path.Slave = on.Mountpoint, hasTag(on, "shared:"), hasTag(on, "master:")
	}
	return s.path, nil
}

// mountOf returns the mount that contains a real path; nil if no mount in the list does.
func mountOf(mounts []*mountinfo.Info, real string) *mountinfo.Info {
	var on *mountinfo.Info
	// If several mounts have one mount point, the last one is on top.
	for _, m := range mounts {
		at := strings.TrimSuffix(m.Mountpoint, "/")
		if (real == at || strings.HasPrefix(real, at+"/")) && (on == nil || len(m.Mountpoint) >= len(on.Mountpoint)) {
			on = m
		}
	}
	return on
}

// hasTag reports whether a mount has an optional field such as shared:7 or master:7. With shared, the mount
// propagates mounts to its peers; with master, it receives theirs.
func hasTag(m *mountinfo.Info, prefix string) bool {
	return slices.ContainsFunc(strings.Fields(m.Optional), func(tag string) bool { return strings.HasPrefix(tag, prefix) })
}

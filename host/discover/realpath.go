package discover

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/podrun/podrun/host/nodeconfig"
)

// volumePaths resolves the symlinks in the paths of volumes. If there are any such paths, it
// also resolves those with which admission compares them.
func (m machine) volumePaths(volumes []string, s nodeconfig.Settings) map[string]string {
	if len(volumes) == 0 {
		return nil
	}
	return m.realPaths(slices.Concat(volumes, s.Layout().Private(), s.SourcesOrDefault()))
}

// realPaths resolves the symlinks in absolute paths. It returns the paths for which the result
// differs. If a path does not exist yet, it resolves the existing part.
func (m machine) realPaths(paths []string) map[string]string {
	var out map[string]string
	for _, p := range paths {
		p = filepath.Clean(p)
		if !filepath.IsAbs(p) {
			continue
		}
		if resolved := m.realPath(p); resolved != p {
			if out == nil {
				out = map[string]string{}
			}
			out[p] = resolved
		}
	}
	return out
}

// rootDir returns podrun's root directory in the form that is hashed into UIDs: absolute and
// without symlinks, so that UIDs do not depend on how a user writes the path. It returns "" if this
// is the default directory, even if the default path or the given path is a symlink.
func (m machine) rootDir(path string) string {
	// Abs fails if the working directory was removed.
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if path = m.realPath(path); path == m.realPath(nodeconfig.Default().RootDir) {
		return ""
	}
	return path
}

func (m machine) realPath(p string) string {
	for dir, rest := p, ""; ; dir, rest = filepath.Dir(dir), filepath.Join(filepath.Base(dir), rest) {
		resolved, err := filepath.EvalSymlinks(m.path(dir))
		switch {
		case err == nil:
			if under, err := filepath.Rel(m.root, resolved); err == nil {
				resolved = filepath.Join("/", under)
			}
			return filepath.Join(resolved, rest)
		case !errors.Is(err, fs.ErrNotExist) || dir == "/":
			// podrun reports the error when it sets up the volume.
			return p
		}
	}
}

package discover

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/podrun/podrun/host/nodeconfig"
)

// volumePaths resolves the paths in volumes, if there are any, and the paths with which
// admission compares them.
func (m machine) volumePaths(volumes []string, s nodeconfig.Settings) map[string]string {
	if len(volumes) == 0 {
		return nil
	}
	return m.realPaths(slices.Concat(volumes, s.Layout().Private(), s.SourcesOrDefault()))
}

// realPaths resolves the symlinks in absolute paths, and returns the paths that differ.
// If a path does not exist yet, it resolves the existing part.
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
// without symlinks, so that UIDs do not depend on how the path is written. It returns "" for the
// default directory, even if the default path or the given path is a symlink.
func (m machine) rootDir(path string) string {
	if abs, err := filepath.Abs(path); err == nil { // fails if the working directory was removed
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
			return p // the error is reported when the volume is set up
		}
	}
}

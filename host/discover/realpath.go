package discover

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/podrun/podrun/host/nodeconfig"
)

// volumePaths resolves the paths of volumes, if there are any, and those that admission
// compares them with.
func (m machine) volumePaths(volumes []string, s nodeconfig.Settings) map[string]string {
	if len(volumes) == 0 {
		return nil
	}
	return m.realPaths(slices.Concat(volumes, s.Layout().Private(), s.SourcesOrDefault()))
}

// realPaths resolves the symlinks of absolute paths, and returns those that differ. Of a
// path that does not exist yet, it resolves the part that does.
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

// rootDir is podrun's root directory as UIDs depend on it: absolute and without symlinks, so
// that they are the same however it is spelled. It is empty for the default one, also where
// that one, or the given path, is a symlink.
func (m machine) rootDir(path string) string {
	if abs, err := filepath.Abs(path); err == nil { // else the working directory was removed
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
			return p // setting up the volume reports it
		}
	}
}

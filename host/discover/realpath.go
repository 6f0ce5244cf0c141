package discover

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/podrun/podrun/host/nodeconfig"
)

// volumePaths resolves the symlinks in the paths of volumes. If there are any such paths, it
// also resolves those with which admission compares them.
func (m machine) volumePaths(volumes []string, s nodeconfig.Settings) (real, unresolved map[string]string) {
	if len(volumes) == 0 {
		return nil, nil
	}
	return m.realPaths(slices.Concat(volumes, s.Layout().Private(), s.SourcesOrDefault()))
}

// realPaths resolves the symlinks in absolute paths. It returns the paths for which the result
// differs, and those that it could not resolve, with the reasons. If a path does not exist yet, it
// resolves the existing part.
func (m machine) realPaths(paths []string) (real, unresolved map[string]string) {
	add := func(to *map[string]string, path, text string) {
		if *to == nil {
			*to = map[string]string{}
		}
		(*to)[path] = text
	}
	for _, p := range paths {
		p = filepath.Clean(p)
		if !filepath.IsAbs(p) {
			continue
		}
		switch resolved, err := m.resolve(p); {
		case err != nil:
			add(&unresolved, p, err.Error())
		case resolved != p:
			add(&real, p, resolved)
		}
	}
	return real, unresolved
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

// realPath resolves the symlinks in a path. It returns the path itself if it cannot resolve them.
func (m machine) realPath(p string) string {
	if resolved, err := m.resolve(p); err == nil {
		return resolved
	}
	return p
}

// resolve resolves the symlinks in the existing part of a path. A symlink without a target is an
// error, because the target may be created later.
func (m machine) resolve(p string) (string, error) {
	for dir, rest := p, ""; ; dir, rest = filepath.Dir(dir), filepath.Join(filepath.Base(dir), rest) {
		resolved, err := filepath.EvalSymlinks(m.path(dir))
		if err == nil {
			if under, err := filepath.Rel(m.root, resolved); err == nil {
				resolved = filepath.Join("/", under)
			}
			return filepath.Join(resolved, rest), nil
		}
		if !errors.Is(err, fs.ErrNotExist) || dir == "/" {
			return "", err
		}
		if _, err := os.Lstat(m.path(dir)); err == nil {
			return "", fmt.Errorf("%s is a symlink whose target does not exist", dir)
		}
	}
}

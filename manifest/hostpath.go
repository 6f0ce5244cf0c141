package manifest

import (
	"fmt"
	"path/filepath"
	"strings"
)

// hostPaths resolves relative hostPaths against the directory of the manifest if an option allows it. Otherwise it
// reports them as problems: the API accepts them, but each runtime interprets them differently. hostPaths runs before
// validation, because validation refuses "..".
func (s podSpec) hostPaths() {
	for i := range s.spec.Volumes {
		source := s.spec.Volumes[i].HostPath
		if source == nil || source.Path == "" || filepath.IsAbs(source.Path) {
			continue
		}
		p := s.problem(fmt.Sprintf("spec.volumes[%d].hostPath.path", i), "FieldValueInvalid", fmt.Sprintf("%q is relative", source.Path))
		switch {
		case s.l.opts.WorkingDir == "":
			p.Hint = "write an absolute path, or use --relative-host-paths to resolve it against the manifest's directory"
			s.l.add(p)
		case strings.Contains(s.it.doc.file, "://"):
			p.Hint = "write an absolute path: a manifest from a URL has no directory on this host"
			s.l.add(p)
		default:
			// The paths of standard input are also relative to the working directory.
			dir := s.l.opts.WorkingDir
			if s.it.doc.file != "-" {
				dir = filepath.Dir(s.it.doc.file)
			}
			if !filepath.IsAbs(dir) {
				dir = filepath.Join(s.l.opts.WorkingDir, dir)
			}
			source.Path = filepath.Join(dir, source.Path)
		}
	}
}

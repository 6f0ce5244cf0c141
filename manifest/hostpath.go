package manifest

import (
	"fmt"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// hostPaths resolves relative hostPaths against the directory of the manifest if an option allows it. Otherwise it
// reports them as problems: the API accepts them, but each runtime interprets them differently. hostPaths runs before
// validation, because validation refuses "..".
func (l *loader) hostPaths(it item, object string, spec *corev1.PodSpec) {
	for i := range spec.Volumes {
		source := spec.Volumes[i].HostPath
		if source == nil || source.Path == "" || filepath.IsAbs(source.Path) {
			continue
		}
		field := it.field(fmt.Sprintf("spec.volumes[%d].hostPath.path", i))
		p := it.problem(object, field, "FieldValueInvalid", fmt.Sprintf("%q is relative", source.Path))
		switch {
		case l.opts.WorkingDir == "":
			p.Hint = "write an absolute path, or use --relative-host-paths to resolve it against the manifest's directory"
			l.add(p)
		case strings.Contains(it.doc.file, "://"):
			p.Hint = "write an absolute path: a manifest from a URL has no directory on this host"
			l.add(p)
		default:
			// The paths of standard input are also relative to the working directory.
			dir := l.opts.WorkingDir
			if it.doc.file != "-" {
				dir = filepath.Dir(it.doc.file)
			}
			if !filepath.IsAbs(dir) {
				dir = filepath.Join(l.opts.WorkingDir, dir)
			}
			source.Path = filepath.Join(dir, source.Path)
		}
	}
}

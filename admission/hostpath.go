package admission

import (
	"fmt"
	"path"
	"strings"

	"k8s.io/pod-security-admission/api"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
)

// HostPath is a path of the host that a volume of the pod shows to containers: that of a
// hostPath, or of the hostPath or local PersistentVolume of a claim.
type HostPath struct {
	Field string
	Path  string
}

// runtimeDirs are the directories of runtimes by their default configuration, by the
// runtime's name.
var runtimeDirs = map[string][]string{
	"containerd": {"/run/containerd", "/var/lib/containerd"},
	"cri-o":      {"/run/crio", "/run/containers", "/var/lib/containers"},
}

// privateDir is a path that gives access to other pods, and its owner.
type privateDir struct{ path, owner string }

// privateDirs are the directories and sockets of podrun and of the runtime. The directory of
// readonly.sock and those of logs are not among them: agents that monitor pods and collect
// logs mount these.
func privateDirs(facts host.Facts, s nodeconfig.Settings) []privateDir {
	var out []privateDir
	add := func(owner string, paths ...string) {
		for _, p := range paths {
			if p = path.Clean(p); path.IsAbs(p) && p != "/" {
				out = append(out, privateDir{p, owner})
			}
		}
	}
	add("podrun", s.Layout().Private()...)
	add("podrun", s.SourcesOrDefault()...) // a URL is not absolute
	add("the container runtime", strings.TrimPrefix(facts.Runtime.Endpoint, "unix://"))
	add("the container runtime", runtimeDirs[facts.Runtime.Name]...)
	add("the container runtime", facts.ImageFS.Path, "/run/podrun-runtime")
	return out
}

// checkHostPaths warns about volumes by which a container reaches the state of podrun or of
// the runtime, and refuses them under the Pod Security Standards. Even a read-only volume
// lets it read other pods' Secrets, connect to sockets and hold locks. The standards
// themselves forbid hostPath volumes, but not claims: in a cluster, an administrator makes
// the volumes that they use; here they may be in the same manifest.
func checkHostPaths(q question) problem.List {
	private := privateDirs(q.facts, q.settings)
	level := api.Level(q.settings.PodSecurity)
	refuses := level != "" && level != api.LevelPrivileged
	var out problem.List
	for _, v := range q.hostPaths {
		what := q.reaches(v.Path, private)
		if what == "" {
			continue
		}
		p := problem.Problem{Field: v.Field, Reason: "HostPathOfPodrun", Warning: !refuses,
			Message: fmt.Sprintf("%s %s: a container that can read it may get access to other pods", v.Path, what)}
		if p.Hint = "mount only the directories that the container needs"; refuses {
			p.Hint = fmt.Sprintf("this host has --pod-security=%s", level)
		}
		out = append(out, p)
	}
	return out
}

// reaches says how a path and private directories overlap, with symlinks resolved; it is
// empty if they do not.
func (q question) reaches(shown string, private []privateDir) string {
	for _, d := range private {
		for _, p := range q.spellings(shown) {
			for _, dir := range q.spellings(d.path) {
				switch {
				case p == dir:
					return "belongs to " + d.owner
				case within(dir, p):
					return fmt.Sprintf("contains %s of %s", d.path, d.owner)
				case within(p, dir):
					return fmt.Sprintf("is in %s of %s", d.path, d.owner)
				}
			}
		}
	}
	return ""
}

// spellings are a path, and the one without symlinks if it differs.
func (q question) spellings(p string) []string {
	p = path.Clean(p)
	if resolved := q.facts.RealPaths[p]; resolved != "" {
		return []string{p, resolved}
	}
	return []string{p}
}

// within reports whether a path is a directory or below it.
func within(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}

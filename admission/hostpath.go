package admission

import (
	"fmt"
	"path"
	"strings"

	"k8s.io/pod-security-admission/api"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
)

// HostPath is a path on the host that a volume of the pod exposes to containers. It is the path
// of a hostPath volume, or the path of a PersistentVolume (hostPath or local) that is bound to
// a claim.
type HostPath struct {
	Field string
	Path  string
	// Volume is the name of the PersistentVolume; "" for a hostPath volume. InManifest is true if a manifest may
	// have defined the PersistentVolume.
	Volume     string
	InManifest bool
}

// runtimeDirs maps a runtime's name to the directories that it has in its default
// configuration.
var runtimeDirs = map[string][]string{
	"containerd": {"/run/containerd", "/var/lib/containerd"},
	"cri-o":      {"/run/crio", "/run/containers", "/var/lib/containers"},
}

// privateDir is a path that gives access to other pods, with the name of the path's owner (podrun or the runtime).
type privateDir struct{ path, owner string }

// privateDirs returns the directories and sockets of podrun and of the runtime. It omits the
// directory of readonly.sock and the log directories, because monitoring and log agents mount
// them.
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
	// A URL is not an absolute path.
	add("podrun", s.SourcesOrDefault()...)
	add("the container runtime", strings.TrimPrefix(facts.Runtime.Endpoint, "unix://"))
	add("the container runtime", runtimeDirs[facts.Runtime.Name]...)
	add("the container runtime", facts.ImageFS.Path, "/run/podrun-runtime")
	return out
}

// PrivatePaths returns the paths that no volume may expose to a container. It returns nil if no Pod Security Standard is
// set: podrun then only warns.
func PrivatePaths(facts host.Facts, s nodeconfig.Settings) []string {
	if !(question{settings: s}).enforces() {
		return nil
	}
	var out []string
	for _, d := range privateDirs(facts, s) {
		out = append(out, d.path)
	}
	return out
}

// checkManifestVolumes refuses a PersistentVolume of a manifest that is a path of this host, if a Pod Security Standard
// is set. The standards forbid hostPath volumes but allow claims, because in a cluster an administrator defines the
// volumes behind claims. Here, these are the volumes of the settings and of an API server.
func checkManifestVolumes(q question) problem.List {
	if !q.enforces() {
		return nil
	}
	var out problem.List
	for _, v := range q.hostPaths {
		if v.InManifest {
			out = append(out, problem.Problem{Field: v.Field, Reason: "HostPathOfManifest", Message: v.forbidden(q.settings.PodSecurity),
				Hint: "bind the claim with --pvc NAME=DIR, --pvc-dir DIR or the setting persistentVolumeClaims"})
		}
	}
	return out
}

// forbidden explains why a Pod Security Standard forbids a PersistentVolume of a manifest.
func (v HostPath) forbidden(level string) string {
	return fmt.Sprintf("PersistentVolume %s is %s of this host, but a manifest defines it: --pod-security=%s allows volumes of the host only from the settings", v.Volume, v.Path, level)
}

// Forbidden returns an event for each host path that the settings forbid for a new pod, for a pod that was started
// before the settings, or an older release, allowed it.
func Forbidden(paths []HostPath, s nodeconfig.Settings) []event.Event {
	var out []event.Event
	for _, p := range checkManifestVolumes(question{hostPaths: paths, settings: s}) {
		out = append(out, event.Event{Type: event.Warning, Reason: p.Reason, Message: p.Field + ": " + p.Message + "; the pod keeps running, but podrun refuses its next change"})
	}
	return out
}

// enforces reports whether a Pod Security Standard other than privileged is set.
func (q question) enforces() bool {
	level := api.Level(q.settings.PodSecurity)
	return level != "" && level != api.LevelPrivileged
}

// checkHostPaths warns about volumes that expose the state of podrun or of the runtime to a
// container. If a Pod Security Standard is set, it refuses them. With such a volume, even a
// read-only one, the container can read Secrets of other pods, connect to sockets and hold locks.
func checkHostPaths(q question) problem.List {
	private := privateDirs(q.facts, q.settings)
	refuses := q.enforces()
	var out problem.List
	for _, v := range q.hostPaths {
		what := q.reaches(v.Path, private)
		if why := q.facts.UnresolvedPaths[path.Clean(v.Path)]; refuses && what == "" && why != "" {
			out = append(out, problem.Problem{Field: v.Field, Reason: "HostPathOfPodrun", Message: fmt.Sprintf("%s cannot be resolved: %s", v.Path, why),
				Hint: "remove the symlink, or use another path"})
		}
		if what == "" {
			continue
		}
		p := problem.Problem{Field: v.Field, Reason: "HostPathOfPodrun", Warning: !refuses,
			Message: fmt.Sprintf("%s %s: a container that mounts it may get access to other pods", v.Path, what)}
		if p.Hint = "mount only the directories that the container needs"; refuses {
			p.Hint = fmt.Sprintf("mount other directories: this host enforces --pod-security=%s", q.settings.PodSecurity)
		}
		out = append(out, p)
	}
	return out
}

// reaches describes how a path overlaps one of the private directories, after symlinks were
// resolved. It returns "" if they do not overlap.
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

// spellings returns a path and, if it differs, the path with its symlinks resolved.
func (q question) spellings(p string) []string {
	p = path.Clean(p)
	if resolved := q.facts.RealPaths[p]; resolved != "" {
		return []string{p, resolved}
	}
	return []string{p}
}

// within reports whether a path is a directory or is below it.
func within(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}

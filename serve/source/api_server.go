package source

import (
	"slices"
	"strings"

	"github.com/podrun/podrun/internal/identity"
)

// APIServer is the state of an API server that defines pods of this host.
type APIServer struct {
	// Why is the reason why the pods of the API server are unknown; "" if they are known.
	Why string
	// Undecided contains the pods that the API server defines and that podrun cannot apply yet, for
	// example because it has not read their Secrets. It maps their paths to the reasons.
	Undecided map[string]string
}

// apiServerPrefix is the beginning of the paths of the API server's pods. It is not a path of a file,
// because those are absolute.
const apiServerPrefix = "API server/"

// APIServerPath returns the path of a pod that an API server defines.
func APIServerPath(id identity.Pod) string { return apiServerPrefix + id.Namespace + "/" + id.Name }

// IsAPIServerPath reports whether a path is that of a pod that an API server defines.
func IsAPIServerPath(path string) bool { return strings.HasPrefix(path, apiServerPrefix) }

// mayDefine implements Snapshot.MayDefine.
func (a *APIServer) mayDefine(path string) (may bool, why string) {
	if a == nil {
		return true, "the pod's API server is not a source of this podrun"
	}
	if a.Why != "" {
		return true, a.Why
	}
	why, may = a.Undecided[path]
	return may, why
}

// WithAPIServer adds the pods of an API server to the pods of the manifest directories. If both define
// a pod of the same name or UID, the directories have precedence: refused contains the paths of the
// other pods, with the names of the files.
func WithAPIServer(s *Snapshot, d *Desired, api *APIServer, pods []Pod) (_ *Snapshot, _ *Desired, refused map[string]string) {
	snapshot, desired := *s, *d
	snapshot.API = api
	desired.Pods = slices.Clone(d.Pods)
	taken := map[string]string{}
	for i := range d.Pods {
		taken[d.Pods[i].Key()], taken[string(d.Pods[i].Object.UID)] = d.Pods[i].Path, d.Pods[i].Path
	}
	delete(taken, "")
	refused = map[string]string{}
	for _, p := range pods {
		file := taken[p.Key()]
		if file == "" {
			file = taken[string(p.Object.UID)]
		}
		if file != "" {
			refused[p.Path] = Shown(file)
			continue
		}
		desired.Pods = append(desired.Pods, p)
	}
	return &snapshot, &desired, refused
}

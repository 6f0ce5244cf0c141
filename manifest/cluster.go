package manifest

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// tokenPrefix is the beginning of the name of the volume that an API server adds for the
// service account's token (plugin/pkg/admission/serviceaccount).
const tokenPrefix = "kube-api-access-"

// tokenVolumes removes the token volume and its mounts from a pod that was exported from a
// cluster, because there is no API server to issue a token.
func (s podSpec) tokenVolumes() {
	index := slices.IndexFunc(s.spec.Volumes, isTokenVolume)
	if index < 0 {
		s.noToken()
		return
	}
	p := s.problem(fmt.Sprintf("spec.volumes[%d]", index), "ClusterField", "")
	if s.l.opts.StrictClusterFields {
		p.Message = fmt.Sprintf("volume %q is for a service account token, which requires a cluster", s.spec.Volumes[index].Name)
		p.Hint = "remove the volume and its mounts, or run without --strict-cluster-fields"
		s.l.add(p)
		return
	}
	p.Message = fmt.Sprintf("volume %q and its mounts are ignored: it is for the service account token of a cluster", s.spec.Volumes[index].Name)
	p.Warning = true
	s.l.add(p)

	gone := map[string]bool{}
	s.spec.Volumes = slices.DeleteFunc(s.spec.Volumes, func(v corev1.Volume) bool {
		gone[v.Name] = gone[v.Name] || isTokenVolume(v)
		return isTokenVolume(v)
	})
	for _, containers := range [][]corev1.Container{s.spec.InitContainers, s.spec.Containers} {
		for i := range containers {
			containers[i].VolumeMounts = slices.DeleteFunc(containers[i].VolumeMounts, func(m corev1.VolumeMount) bool { return gone[m.Name] })
		}
	}
}

// noToken warns that a pod that explicitly requests a token does not get one. Every pod has a
// service account. A pod explicitly requests the token if it names an account other than the
// default one, or if it requests the mount.
func (s podSpec) noToken() {
	account := s.spec.ServiceAccountName
	if account == "" {
		account = s.spec.DeprecatedServiceAccount
	}
	const message = "no token is mounted: there is no API server that could issue one"
	switch mount := s.spec.AutomountServiceAccountToken; {
	case mount != nil && *mount:
		s.note("spec.automountServiceAccountToken", message)
	case mount == nil && account != "" && account != "default":
		s.note("spec.serviceAccountName", message)
	}
}

// note adds a warning about a field whose effect differs from that in a cluster.
func (s podSpec) note(field, message string) {
	p := s.problem(field, "ClusterField", message)
	p.Warning = true
	s.l.add(p)
}

// isTokenVolume reports whether the admission of an API server added the volume. A user's volume
// may have such a name, but has no token.
func isTokenVolume(v corev1.Volume) bool {
	return strings.HasPrefix(v.Name, tokenPrefix) && v.Projected != nil &&
		slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.ServiceAccountToken != nil })
}

// missing returns the paths of the fields that the pod "before" has and the pod "after" does not have.
func missing(before, after *corev1.Pod) []string {
	var paths []string
	compare(generic(before), generic(after), "", &paths)
	sort.Strings(paths)
	return paths
}

func generic(pod *corev1.Pod) any {
	var out any
	data, err := json.Marshal(pod)
	if err != nil || json.Unmarshal(data, &out) != nil {
		return nil
	}
	return out
}

func compare(before, after any, path string, paths *[]string) {
	switch b := before.(type) {
	case map[string]any:
		a, _ := after.(map[string]any)
		for key, value := range b {
			at := strings.TrimPrefix(path+"."+key, ".")
			if other, ok := a[key]; ok {
				compare(value, other, at, paths)
			} else {
				*paths = append(*paths, at)
			}
		}
	case []any:
		a, _ := after.([]any)
		for i, value := range b {
			at := fmt.Sprintf("%s[%d]", path, i)
			if i < len(a) {
				compare(value, a[i], at, paths)
			} else {
				*paths = append(*paths, at)
			}
		}
	}
}

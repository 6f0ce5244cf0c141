package volume

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	apiresource "k8s.io/kubernetes/pkg/api/v1/resource"
	"k8s.io/kubernetes/pkg/fieldpath"
	"k8s.io/kubernetes/pkg/securitycontext"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
)

// The kubelet's names of volume plugins, which are also the names of their directories.
const (
	configMapPlugin = "kubernetes.io~configmap"
	secretPlugin    = "kubernetes.io~secret"
	downwardPlugin  = "kubernetes.io~downward-api"
	projectedPlugin = "kubernetes.io~projected"
)

func planConfigMap(in Input, v *corev1.Volume) (Volume, problem.List) {
	s := v.ConfigMap
	p := newPayload(s.DefaultMode)
	problems := p.take("", in.configMapSource(s.Name, s.Items, s.Optional))
	return in.files(v.Name, configMapPlugin, p, problems)
}

func planSecret(in Input, v *corev1.Volume) (Volume, problem.List) {
	s := v.Secret
	p := newPayload(s.DefaultMode)
	problems := p.take("", in.secretSource(s.SecretName, s.Items, s.Optional))
	return in.files(v.Name, secretPlugin, p, problems)
}

func planDownward(in Input, v *corev1.Volume) (Volume, problem.List) {
	p := newPayload(v.DownwardAPI.DefaultMode)
	problems := in.downward(p, "", v.DownwardAPI.Items)
	return in.files(v.Name, downwardPlugin, p, problems)
}

func planProjected(in Input, v *corev1.Volume) (Volume, problem.List) {
	p := newPayload(v.Projected.DefaultMode)
	var problems problem.List
	for i, s := range v.Projected.Sources {
		at := fmt.Sprintf("sources[%d].", i)
		switch {
		case s.ConfigMap != nil:
			problems = append(problems, p.take(at+"configMap", in.configMapSource(s.ConfigMap.Name, s.ConfigMap.Items, s.ConfigMap.Optional))...)
		case s.Secret != nil:
			others := len(p.files)
			problems = append(problems, p.take(at+"secret", in.secretSource(s.Secret.Name, s.Secret.Items, s.Secret.Optional))...)
			if secret := in.Secrets[s.Secret.Name]; secret != nil && secret.Type == identity.TokenSecretType {
				restrictTokens(in.Pod, p.files[others:])
			}
		case s.DownwardAPI != nil:
			problems = append(problems, in.downward(p, at+"downwardAPI", s.DownwardAPI.Items)...)
		default:
			problems = append(problems, needsServer(at, s))
		}
	}
	return in.files(v.Name, projectedPlugin, p, problems)
}

// restrictTokens sets the owner and the mode of files with service account tokens, as the kubelet does
// (pkg/volume/projected): if all containers run as the same user, only this user may read the files. If the
// volume has a group, the group may read them, too (FSGroup).
func restrictTokens(pod *corev1.Pod, files []File) {
	user := commonUser(pod)
	if sc := pod.Spec.SecurityContext; user == nil && (sc == nil || sc.FSGroup == nil) {
		return
	}
	for i := range files {
		files[i].Mode, files[i].UID = 0o600, user
	}
}

// commonUser returns the user as which all containers of a pod run, except ephemeral ones; nil if they run
// as different users or one of them does not specify its user.
func commonUser(pod *corev1.Pod) *int64 {
	var common *int64
	podutil.VisitContainers(&pod.Spec, podutil.InitContainers|podutil.Containers, func(c *corev1.Container, _ podutil.ContainerType) bool {
		user, specified := securitycontext.DetermineEffectiveRunAsUser(pod, c)
		if !specified || common != nil && *common != *user {
			common = nil
			return false
		}
		common = user
		return true
	})
	return common
}

// needsServer refuses the sources that require an API server.
func needsServer(at string, s corev1.VolumeProjection) problem.Problem {
	out := problem.Problem{Reason: "FailedMount"}
	switch {
	case s.ServiceAccountToken != nil:
		out.Field = at + "serviceAccountToken"
		out.Message = "service account tokens are issued by an API server, which podrun does not have"
		out.Hint = "put a token into a Secret and project it"
	case s.ClusterTrustBundle != nil:
		out.Field = at + "clusterTrustBundle"
		out.Message = "a ClusterTrustBundle is stored by an API server, which podrun does not have"
		out.Hint = "put the certificates into a ConfigMap and project it"
	case s.PodCertificate != nil:
		out.Field = at + "podCertificate"
		out.Message = "pod certificates are issued by an API server, which podrun does not have"
		out.Hint = "put the key and the certificate into a Secret and project it"
	default:
		out.Field = strings.TrimSuffix(at, ".")
		out.Message = "unknown source of a projected volume"
		out.Hint = "use configMap, secret or downwardAPI"
	}
	return out
}

// downward adds the files of a downwardAPI source. They contain fields of the pod, and
// resources of its containers.
func (in Input) downward(p *payload, at string, items []corev1.DownwardAPIVolumeFile) problem.List {
	var out problem.List
	for i, item := range items {
		field := join(at, fmt.Sprintf("items[%d]", i))
		var value string
		var err error
		switch {
		case item.FieldRef != nil:
			value, err = fieldpath.ExtractFieldPathAsString(in.named(), item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			ref := item.ResourceFieldRef
			value, err = apiresource.ExtractResourceValueByContainerNameAndNodeAllocatable(ref, in.Pod, ref.ContainerName, in.Allocatable)
		}
		if err != nil {
			out = append(out, missing(field, err.Error(), ""))
			continue
		}
		if err := p.add(item.Path, item.Mode, []byte(value)); err != nil {
			out = append(out, missing(field+".path", err.Error(), ""))
		}
	}
	return out
}

// named returns the pod with the namespace, name and UID that it has on this host.
func (in Input) named() *corev1.Pod {
	pod := *in.Pod
	pod.Namespace, pod.Name, pod.UID = in.ID.Namespace, in.ID.Name, types.UID(in.ID.UID)
	return &pod
}

// files returns a volume whose files are in memory. The kubelet stores ConfigMaps on disk, although
// a comment in its source says that it should not. podrun stores them in memory, because creating a
// file on disk takes 20 to 100 times as long.
func (in Input) files(name, plugin string, p *payload, problems problem.List) (Volume, problem.List) {
	files, err := p.sorted()
	if err != nil {
		problems = append(problems, missing("", err.Error(), ""))
	}
	v := Volume{
		Plugin: plugin, HostPath: in.Layout.Pod(in.ID.UID).Volume(plugin, name), ReadOnly: true,
		Setup: Setup{Kind: SetupFiles, Files: &Files{
			SizeBytes: tmpfsSize(in.MemoryAllocatable, in.MemoryLimit, nil), Files: files, Nested: nestedMounts(in.Pod, name, files)}},
	}
	if sc := in.Pod.Spec.SecurityContext; sc != nil {
		// The content is always new, so the change policy has no effect.
		v.FSGroup = sc.FSGroup
	}
	return v, problems
}

// nestedMounts returns the paths inside a volume at which containers mount other volumes. It omits
// a path if its first component is one of the volume's files, or a directory that contains them.
func nestedMounts(pod *corev1.Pod, volume string, files []File) []string {
	var out []string
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			out = append(out, nestedIn(list[i].VolumeMounts, volume)...)
		}
	}
	if len(out) == 0 {
		return nil
	}
	taken := tops(files)
	out = slices.DeleteFunc(out, func(at string) bool {
		top, _, _ := strings.Cut(at, "/")
		_, found := slices.BinarySearch(taken, top)
		return found || strings.HasPrefix(top, "..")
	})
	slices.Sort(out)
	return slices.Compact(out)
}

func nestedIn(mounts []corev1.VolumeMount, volume string) []string {
	var out []string
	for _, outer := range mounts {
		if outer.Name != volume || outer.SubPath != "" || outer.SubPathExpr != "" {
			continue
		}
		above := path.Clean("/"+outer.MountPath) + "/"
		for _, inner := range mounts {
			if at, ok := strings.CutPrefix(path.Clean("/"+inner.MountPath), above); ok {
				out = append(out, at)
			}
		}
	}
	return out
}

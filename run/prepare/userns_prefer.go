package prepare

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/manifest"
)

// withUserNamespace returns the pod of a target with the default for hostUsers. If podrun keeps the
// existing pod, the default is that pod's value. For a new pod, the setting userNamespaces
// determines the default, and withUserNamespace records in the target why a new pod has no user
// namespace.
func (in Input) withUserNamespace(t *Target, pod *corev1.Pod, handler string) *corev1.Pod {
	switch {
	case pod.Spec.HostUsers != nil:
		return pod
	case t.since != nil || t.Forced:
		return manifest.KeepUserNamespace(t.Was.Pod, pod)
	case in.Settings.UserNamespaces != nodeconfig.UserNamespacesPrefer:
		return pod
	}
	preferred := manifest.PreferUserNamespace(pod)
	t.hostUsers = whyHostUsers(pod, in.Facts, handler)
	if _, problems := UserNamespace(preferred, t.UID, in.Facts.UserNS, in.Settings.MaxPods); t.hostUsers == "" && len(problems) > 0 {
		t.hostUsers = problems[0].Message
	}
	if t.hostUsers != "" {
		return pod
	}
	return preferred
}

// idMappedTmpfs is the first version of Linux that supports ID-mapped mounts of tmpfs (KEP-127).
// Secrets, ConfigMaps and service account tokens are on tmpfs.
var idMappedTmpfs = version.MustParseGeneric("6.3.0")

// whyHostUsers explains why a pod does not have a user namespace by default. It returns "" if the
// host supports user namespaces and the pod works the same with and without one.
func whyHostUsers(pod *corev1.Pod, facts host.Facts, handler string) string {
	kernel, err := version.ParseGeneric(facts.KernelVersion)
	switch {
	case facts.User != nil:
		return "user " + facts.User.Name + " cannot give a pod its own user namespace"
	case !facts.Runtime.Handlers[handler].UserNamespaces:
		return "the runtime does not support user namespaces"
	case err != nil || !kernel.AtLeast(idMappedTmpfs):
		return fmt.Sprintf("Linux %s does not support ID-mapped tmpfs mounts, which require 6.3", facts.KernelVersion)
	case facts.MaxUserNamespaces <= 0:
		return "user.max_user_namespaces is 0"
	case pod.Spec.HostNetwork:
		return "hostNetwork"
	case pod.Spec.HostPID:
		return "hostPID"
	case pod.Spec.HostIPC:
		return "hostIPC"
	}
	for _, v := range pod.Spec.Volumes {
		if !idMapped(v) {
			return "volume " + v.Name + " may not support ID-mapped mounts, or its files belong to host users"
		}
	}
	if sc := pod.Spec.SecurityContext; sc != nil {
		for _, id := range append([]*int64{sc.RunAsUser, sc.RunAsGroup, sc.FSGroup}, pointers(sc.SupplementalGroups)...) {
			if outside(id) {
				return fmt.Sprintf("ID %d is outside the range of a user namespace", *id)
			}
		}
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if why := whyContainer(&list[i]); why != "" {
				return "container " + list[i].Name + ": " + why
			}
		}
	}
	return ""
}

// idMapped reports whether podrun itself creates a volume's files on a file system that supports
// ID-mapped mounts. It returns false for other volumes: they may be on NFS, FUSE or ZFS, or may be
// sockets and directories that the container shares with users of the host.
func idMapped(v corev1.Volume) bool {
	if v.EmptyDir != nil {
		return !strings.HasPrefix(string(v.EmptyDir.Medium), string(corev1.StorageMediumHugePages))
	}
	return v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil
}

// harmless are the capabilities that have the same effect inside and outside a user namespace. They
// are the capabilities that the Pod Security Standard "baseline" allows.
var harmless = []corev1.Capability{"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"}

func whyContainer(c *corev1.Container) string {
	for _, list := range []corev1.ResourceList{c.Resources.Limits, c.Resources.Requests} {
		for name := range list {
			if strings.Contains(string(name), "/") {
				return fmt.Sprintf("its device %s belongs to host users", name)
			}
		}
	}
	if len(c.VolumeDevices) > 0 {
		return "its block devices belong to host users"
	}
	sc := c.SecurityContext
	if sc == nil {
		return ""
	}
	if sc.Privileged != nil && *sc.Privileged {
		return "privileged"
	}
	for _, id := range []*int64{sc.RunAsUser, sc.RunAsGroup} {
		if outside(id) {
			return fmt.Sprintf("ID %d is outside the range of a user namespace", *id)
		}
	}
	if sc.Capabilities != nil {
		for _, added := range sc.Capabilities.Add {
			if !slices.Contains(harmless, corev1.Capability(strings.TrimPrefix(string(added), "CAP_"))) {
				return fmt.Sprintf("capability %s has less effect in a user namespace", added)
			}
		}
	}
	return ""
}

func outside(id *int64) bool { return id != nil && *id >= identity.UserNSLength }

func pointers(ids []int64) []*int64 {
	var out []*int64
	for i := range ids {
		out = append(out, &ids[i])
	}
	return out
}

// userNamespace describes the target's default user namespace for PlanView. It returns "" if the
// setting userNamespaces has no effect on the pod.
func (t Target) userNamespace() string {
	if first, has := t.Plan.IDRange(); has && manifest.HasPreferredUserNamespace(t.Plan.Pod) {
		return fmt.Sprintf("host IDs %d-%d, from the setting userNamespaces", first, uint64(first)+identity.UserNSLength-1)
	}
	if t.hostUsers != "" {
		return "none: " + t.hostUsers
	}
	return ""
}

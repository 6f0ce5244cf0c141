package cluster

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/runtime"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/serve/source"
)

// Merge implements serve.Cluster.
func (c *Cluster) Merge(s *source.Snapshot, d *source.Desired) (*source.Snapshot, *source.Desired) {
	api := &source.APIServer{Undecided: map[string]string{}}
	c.setFiles(d.Pods)
	if !c.pods.HasSynced() {
		api.Why = "the API server has not sent the pods of this node since podrun-node started"
		s, d, _ = source.WithAPIServer(s, d, api, nil)
		return s, d
	}
	var pods []source.Pod
	bound := map[string]*corev1.Pod{}
	for _, pod := range c.list() {
		path := source.APIServerPath(identity.Pod{Namespace: pod.Namespace, Name: pod.Name})
		switch want := c.wanted(pod); {
		case want && podutil.IsPodTerminal(pod):
			// Otherwise, a change of the pod's labels would start the pod again.
			api.Undecided[path] = "the pod has ended"
			continue
		case !want:
			continue
		}
		one, why := c.definition(pod)
		if why != "" {
			api.Undecided[path] = why
			c.statuses.waiting(pod, why)
			continue
		}
		one.Path = path
		pods, bound[path] = append(pods, one), pod
	}
	s, d, refused := source.WithAPIServer(s, d, api, pods)
	for path, file := range refused {
		c.refuse(bound[path], &problem.Error{Kind: problem.Refused, Problems: problem.List{{Reason: "NameConflict",
			Message: "a pod of the same name is defined in " + file + " on this node"}}})
	}
	return s, d
}

// list returns the API server's pods of this node, sorted.
func (c *Cluster) list() []*corev1.Pod {
	var out []*corev1.Pod
	for _, o := range c.pods.GetStore().List() {
		out = append(out, o.(*corev1.Pod))
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return out
}

// wanted reports whether a pod of the API server must be on this host. A pod with a terminal phase stays
// if it is on this host, but never starts again.
func (c *Cluster) wanted(pod *corev1.Pod) bool {
	switch {
	case isMirror(pod), pod.DeletionTimestamp != nil:
		return false
	case podutil.IsPodTerminal(pod), c.statuses.refused(pod.UID):
		return c.hosted(pod.UID)
	}
	return true
}

// definition returns a pod with the objects to which it refers. why is not empty if podrun cannot apply
// the pod yet.
func (c *Cluster) definition(pod *corev1.Pod) (out source.Pod, why string) {
	out = source.Pod{Pod: manifest.FromAPIServer(pod), Final: true, Referred: &manifest.Objects{}}
	object := out.Object
	if !c.hosted(pod.UID) {
		// A new pod cannot have ephemeral containers. podrun adds them when the pod runs.
		object.Spec.EphemeralContainers = nil
	}
	out.Referred.Add(&manifest.Objects{}) // creates the maps
	known, missing := c.references.use(pod.UID, referencesOf(object))
	volumes := volumesOf(known)
	if missing == nil && len(volumes) > 0 {
		known, missing = c.references.use(pod.UID, append(referencesOf(object), volumes...))
	}
	if missing != nil {
		return out, fmt.Sprintf("the API server has not sent %s %q yet", missing.kind, missing.name)
	}
	for ref, o := range known {
		add(out.Referred, ref, o)
	}
	secrets, err := c.tokens.project(object)
	if err != nil {
		return out, err.Error()
	}
	for _, s := range secrets {
		out.Referred.Secrets[s.Namespace+"/"+s.Name] = s
	}
	return out, ""
}

// referencesOf returns the objects to which a pod refers, except volumes of claims.
func referencesOf(pod *corev1.Pod) []reference {
	var out []reference
	add := func(kind string) podutil.Visitor {
		return func(name string) bool {
			if ref := (reference{kind, pod.Namespace, name}); name != "" && !slices.Contains(out, ref) {
				out = append(out, ref)
			}
			return true
		}
	}
	podutil.VisitPodConfigmapNames(pod, add(configMapKind))
	podutil.VisitPodSecretNames(pod, add(secretKind))
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			add(claimKind)(v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			add(claimKind)(pod.Name + "-" + v.Name)
		}
	}
	if name := pod.Spec.RuntimeClassName; name != nil {
		out = append(out, reference{runtimeClassKind, "", *name})
	}
	return out
}

// volumesOf returns the volumes to which claims are bound.
func volumesOf(known map[reference]runtime.Object) (out []reference) {
	for _, o := range known {
		if claim, ok := o.(*corev1.PersistentVolumeClaim); ok && claim.Spec.VolumeName != "" {
			out = append(out, reference{volumeKind, "", claim.Spec.VolumeName})
		}
	}
	return out
}

// add adds an object of the API server, without metadata that can change when the object itself does not.
func add(to *manifest.Objects, ref reference, o runtime.Object) {
	o = o.DeepCopyObject()
	switch o := o.(type) {
	case *corev1.ConfigMap:
		o.ObjectMeta = manifest.APIServerMeta(o.ObjectMeta)
		to.ConfigMaps[keyOf(ref)] = o
	case *corev1.Secret:
		o.ObjectMeta = manifest.APIServerMeta(o.ObjectMeta)
		to.Secrets[keyOf(ref)] = o
	case *corev1.PersistentVolumeClaim:
		o.ObjectMeta = manifest.APIServerMeta(o.ObjectMeta)
		o.Status = corev1.PersistentVolumeClaimStatus{}
		to.Claims[keyOf(ref)] = o
	case *corev1.PersistentVolume:
		to.Volumes[keyOf(ref)] = manifest.OfAPIServer(o)
	case *nodev1.RuntimeClass:
		o.ObjectMeta = manifest.APIServerMeta(o.ObjectMeta)
		to.RuntimeClasses[keyOf(ref)] = o
	}
}

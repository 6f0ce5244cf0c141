package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest/input"
)

// Workload is a workload of the input for which podrun runs the requested number of pods (docs/design/replicas.md).
type Workload struct {
	Kind string
	// First is the pod of the first replica. Its name is that of the workload. It is valid even if
	// podrun runs no replica.
	First    Pod
	Replicas int32  // the number of pods, which Objects.Pods contains
	Written  *int32 // spec.replicas of the input; nil if the input omits it

	claims []*corev1.PersistentVolumeClaim // the claims of the first replica of a StatefulSet
}

// ID returns the namespace and the name of the workload.
func (w *Workload) ID() identity.Pod {
	return identity.Pod{Namespace: w.First.Object.Namespace, Name: w.First.Object.Name}
}

// replicated are the kinds of workloads that have a number of pods.
var replicated = []string{"Deployment", "StatefulSet", "ReplicaSet", "ReplicationController"}

// IsReplicated reports whether workloads of a kind have a number of pods.
func IsReplicated(kind string) bool { return slices.Contains(replicated, kind) }

// replicasOf returns the number in the specification of a workload; nil if it has none. ok is false
// for kinds without a number of pods.
func replicasOf(obj any) (n **int32, ok bool) {
	switch o := obj.(type) {
	case *appsv1.Deployment:
		return &o.Spec.Replicas, true
	case *appsv1.StatefulSet:
		return &o.Spec.Replicas, true
	case *appsv1.ReplicaSet:
		return &o.Spec.Replicas, true
	case *corev1.ReplicationController:
		return &o.Spec.Replicas, true
	}
	return nil, false
}

// SetReplicas sets spec.replicas of a workload, if its kind has it.
func SetReplicas(workload any, n int32) {
	if at, ok := replicasOf(workload); ok {
		*at = &n
	}
}

// ReplicaName returns the name of a pod of a workload. The first pod, whose index is 0, has the
// workload's name.
func ReplicaName(workload string, index int) string {
	if index == 0 {
		return workload
	}
	return workload + "-" + strconv.Itoa(index)
}

// ReplicaIndex returns the index of the workload's pod with the given name. It returns false if
// ReplicaName returns this name for no index.
func ReplicaIndex(workload, pod string) (index int, ok bool) {
	if pod == workload {
		return 0, true
	}
	rest, ok := strings.CutPrefix(pod, workload+"-")
	index, err := strconv.Atoi(rest)
	return index, ok && err == nil && index > 0 && ReplicaName(workload, index) == pod
}

// honours reports whether podrun runs as many pods as the workload requests. It adds the annotation to
// the workload if the setting requests that, so that the definition has the same meaning on a host
// without the setting.
func (l *loader) honours(it item, h header, obj any, meta *metav1.ObjectMeta) bool {
	if _, ok := replicasOf(obj); !ok {
		return false
	}
	switch value, has := meta.Annotations[identity.AnnotationReplicas]; {
	case has && value != identity.ReplicasHonour && value != identity.ReplicasIgnore:
		p := it.problem(l.objectName(h), "metadata.annotations["+identity.AnnotationReplicas+"]", "FieldValueNotSupported", fmt.Sprintf("%q is not honour or ignore", value))
		p.Hint = "honour runs as many pods as spec.replicas requests, ignore runs one pod"
		l.add(p)
		return false
	case has:
		return value == identity.ReplicasHonour
	case !l.opts.HonourReplicas:
		return false
	}
	meta.Annotations = maps.Clone(meta.Annotations)
	if meta.Annotations == nil {
		meta.Annotations = map[string]string{}
	}
	meta.Annotations[identity.AnnotationReplicas] = identity.ReplicasHonour
	return true
}

// replicas converts the last pod, which results from the template of a workload, to as many pods as the
// workload requests.
func (l *loader) replicas(it item, h header, obj any) {
	n := len(l.objects.Pods) - 1
	if n < 0 || l.objects.Pods[n].From != h.Kind+" "+l.objects.Pods[n].Object.Name {
		return // takePod refused it
	}
	w := Workload{Kind: h.Kind, First: l.objects.Pods[n], Replicas: 1}
	if written, _ := replicasOf(obj); *written != nil {
		w.Replicas = max(**written, 0)
		w.Written = *written
	} else if l.opts.Scaled != nil {
		if scaled, ok := l.opts.Scaled(h.Kind, w.ID()); ok {
			w.Replicas = scaled
		}
	}
	if set, ok := obj.(*appsv1.StatefulSet); ok {
		for _, template := range set.Spec.VolumeClaimTemplates {
			if claim := l.objects.Claims[w.ID().Namespace+"/"+ClaimName(template.Name, set.Name, 0)]; claim != nil {
				w.claims = append(w.claims, claim)
			}
		}
	}
	l.problems = append(l.problems, w.hostPorts(it, l.objectName(h))...)
	if set, ok := obj.(*appsv1.StatefulSet); ok && set.Spec.Ordinals != nil && set.Spec.Ordinals.Start != 0 {
		p := it.problem(l.objectName(h), "spec.ordinals.start", "FieldValueNotSupported", "the ordinals of podrun's replicas begin with 0")
		p.Hint = "remove the field"
		l.add(p)
	}
	if w.Replicas == 0 {
		l.objects.Pods = l.objects.Pods[:n]
	}
	spec := podSpec{l: l, it: it, object: l.objectName(h), spec: &w.First.Object.Spec}
	for i := 1; i < int(w.Replicas); i++ {
		if !spec.count() {
			return
		}
		p, claims := w.Replica(i)
		key := "Pod " + qualified(&p.Object.ObjectMeta)
		if first, taken := l.seen[key]; taken {
			pr := it.problem(l.objectName(h), "spec.replicas", "FieldValueDuplicate", fmt.Sprintf("the pod of replica %d, %s, is defined twice%s", i, p.Object.Name, secondOf(first.position(), it.doc.file)))
			pr.Hint = "rename one of them"
			l.add(pr)
			return
		}
		l.seen[key] = it.place("")
		l.objects.Pods = append(l.objects.Pods, p)
		l.objects.AddClaims(claims)
	}
	l.objects.Workloads = append(l.objects.Workloads, w)
}

// AddClaims adds claims of a replica. A claim of that name in the input has precedence, as in a cluster.
func (o *Objects) AddClaims(claims []*corev1.PersistentVolumeClaim) {
	for _, claim := range claims {
		addTo(&o.Claims, map[string]*corev1.PersistentVolumeClaim{qualified(&claim.ObjectMeta): claim})
	}
}

// hostPorts refuses several pods that need the same port of the host.
func (w *Workload) hostPorts(it item, object string) (out problem.List) {
	if w.Replicas < 2 {
		return nil
	}
	spec := &w.First.Object.Spec
	for field, containers := range map[string][]corev1.Container{"spec.initContainers": spec.InitContainers, "spec.containers": spec.Containers} {
		for i := range containers {
			for j, port := range containers[i].Ports {
				if port.HostPort == 0 {
					continue
				}
				name := "hostPort"
				if spec.HostNetwork {
					name = "containerPort" // the host port defaults to it
				}
				p := it.problem(object, it.field(fmt.Sprintf("%s[%d].ports[%d].%s", field, i, j, name)), "FieldValueInvalid",
					fmt.Sprintf("%d replicas cannot use the same port %d of this host", w.Replicas, port.HostPort))
				p.Hint = "remove the host port and use a Service of type NodePort, or set spec.replicas to 1"
				out = append(out, p)
			}
		}
	}
	return out
}

// Replica returns a pod of the workload, and the claims of the workload that only this pod uses. The
// result shares memory with the workload.
func (w *Workload) Replica(index int) (Pod, []*corev1.PersistentVolumeClaim) {
	p := w.First
	if index == 0 {
		return p, w.claims
	}
	name := p.Object.Name
	pod := *p.Object
	pod.Name = ReplicaName(name, index)
	p.Definition = p.Definition.named(name)
	var claims []*corev1.PersistentVolumeClaim
	if w.Kind == "StatefulSet" {
		pod.Spec.Volumes = slices.Clone(pod.Spec.Volumes)
		for _, claim := range w.claims {
			template := strings.TrimSuffix(claim.Name, "-"+name+"-0")
			copied := claim.DeepCopy()
			copied.Name = ClaimName(template, name, index)
			claims = append(claims, copied)
			for i := range pod.Spec.Volumes {
				if pod.Spec.Volumes[i].Name == template {
					pod.Spec.Volumes[i].PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: copied.Name}
				}
			}
		}
		pod.Labels = maps.Clone(pod.Labels)
		setOrdinal(&pod.ObjectMeta, &pod.Spec, name, pod.Spec.Subdomain, index)
	}
	p.Object = &pod
	return p, claims
}

// ClaimName returns the name that the controller of StatefulSets gives to the claim of a pod.
func ClaimName(template, set string, index int) string {
	return fmt.Sprintf("%s-%s-%d", template, set, index)
}

// setOrdinal gives a pod of a StatefulSet the identity that the controller gives it, apart from its
// name (updateIdentity and initIdentity in pkg/controller/statefulset).
func setOrdinal(meta *metav1.ObjectMeta, spec *corev1.PodSpec, set, service string, index int) {
	name := set + "-" + strconv.Itoa(index)
	spec.Hostname = name
	spec.Subdomain = service
	if meta.Labels == nil {
		meta.Labels = map[string]string{}
	}
	meta.Labels[appsv1.StatefulSetPodNameLabel], meta.Labels[appsv1.PodIndexLabel] = name, strconv.Itoa(index)
}

// withoutOrdinal removes from a template the fields that setOrdinal adds.
func withoutOrdinal(t *corev1.PodTemplateSpec) {
	t.Labels = maps.Clone(t.Labels)
	delete(t.Labels, appsv1.StatefulSetPodNameLabel)
	delete(t.Labels, appsv1.PodIndexLabel)
	t.Spec.Hostname = ""
	t.Spec.Subdomain = ""
}

// meta returns the metadata of the workload in a definition.
func (d *Definition) meta() metav1.ObjectMeta {
	var o metav1.PartialObjectMetadata
	if d == nil || d.Workload == nil || json.Unmarshal(d.Workload, &o) != nil {
		return metav1.ObjectMeta{}
	}
	return o.ObjectMeta
}

// named returns the definition with the name of the workload. The pod then has another name.
func (d *Definition) named(name string) *Definition {
	var fields map[string]json.RawMessage
	var meta map[string]json.RawMessage
	if json.Unmarshal(d.Workload, &fields) != nil {
		return d // newDefinition never returns this
	}
	_ = json.Unmarshal(fields["metadata"], &meta)
	if meta == nil {
		meta = map[string]json.RawMessage{}
	}
	// Marshaling strings and raw messages cannot fail.
	meta["name"], _ = json.Marshal(name)
	fields["metadata"], _ = json.Marshal(meta)
	raw, _ := json.Marshal(fields)
	return &Definition{Kind: d.Kind, Workload: raw}
}

// WorkloadName returns the name of the object that defines a pod with the given name.
func (d *Definition) WorkloadName(pod string) string {
	if name := d.meta().Name; name != "" {
		return name
	}
	return pod
}

// Honours reports whether podrun runs as many pods as the workload requests.
func (d *Definition) Honours() bool {
	return d != nil && IsReplicated(d.Kind) && d.meta().Annotations[identity.AnnotationReplicas] == identity.ReplicasHonour
}

// Replicas returns spec.replicas of the workload; nil if it is omitted.
func (d *Definition) Replicas() *int32 {
	var o struct {
		Spec struct {
			Replicas *int32 `json:"replicas"`
		} `json:"spec"`
	}
	if d == nil || d.Workload == nil || json.Unmarshal(d.Workload, &o) != nil {
		return nil
	}
	return o.Spec.Replicas
}

// OtherWorkload returns the object that defines the existing pod with the given name, such as
// "Deployment web", if a new definition must not replace it. The new definition must not replace the
// pod if one of the two pods is a replica of a workload, but not the first one, and the other pod is
// not a replica of the same workload. It returns "" if the new definition may replace the existing
// one. A pod without a definition is one that an older release created.
func OtherWorkload(pod string, was, is *Definition) string {
	owner := func(d *Definition) string {
		if d == nil {
			return "an older version of podrun"
		}
		return d.Kind + " " + d.WorkloadName(pod)
	}
	if is.WorkloadName(pod) == pod && was.WorkloadName(pod) == pod || owner(was) == owner(is) {
		return ""
	}
	return owner(was)
}

// Scale returns a workload, and its first n pods, from the checkpoint of one of its pods. It reads the
// workload like a file, so that a newer podrun applies its own defaults. The problems include those of
// a number that this workload cannot have.
func Scale(c Checkpoint, n int32) (*Objects, problem.List) {
	object, err := WorkloadObject(c.Pod, c.Definition)
	if err != nil || object == nil {
		return nil, problem.List{{Object: "Pod " + qualified(&c.Pod.ObjectMeta), Message: "no workload defines the pod"}}
	}
	kind, name := c.Definition.Kind, c.Definition.WorkloadName(c.Pod.Name)
	var written *int32
	if at, ok := replicasOf(object); ok {
		written, *at = c.Definition.Replicas(), &n
	}
	data, err := json.Marshal(object)
	if err != nil {
		return nil, problem.List{{Object: kind + " " + name, Message: err.Error()}}
	}
	objects, problems := Load([]input.Source{{
		Name: strings.ToLower(kind) + "/" + name,
		Data: data,
	}}, Options{
		Namespace:      c.Pod.Namespace,
		HonourReplicas: true,
	})
	if len(problems.Errors()) > 0 || len(objects.Workloads) != 1 {
		return nil, problems
	}
	w := &objects.Workloads[0]
	w.Written = written
	w.First.WroteDNSPolicy = false
	w.First.SecretsInMemory = c.InMemory
	for i := range objects.Pods {
		objects.Pods[i].WroteDNSPolicy = false
		objects.Pods[i].SecretsInMemory = c.InMemory
	}
	others := c.Objects()
	others.Pods = nil
	objects.Add(others)
	return objects, problems
}

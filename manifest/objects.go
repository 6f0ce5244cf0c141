package manifest

import (
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/apis/core"
	coredefaults "k8s.io/kubernetes/pkg/apis/core/v1"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/node"
	nodeconversion "k8s.io/kubernetes/pkg/apis/node/v1"
	nodevalidation "k8s.io/kubernetes/pkg/apis/node/validation"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	schedulingdefaults "k8s.io/kubernetes/pkg/apis/scheduling/v1"
	schedulingvalidation "k8s.io/kubernetes/pkg/apis/scheduling/validation"

	"github.com/podrun/podrun/internal/credential"
)

func (l *loader) configMap(it item, h header) {
	var obj corev1.ConfigMap
	if !l.decode(it, l.objectName(h), &obj) {
		return
	}
	l.serverFields(&obj.ObjectMeta, true)
	var internal core.ConfigMap
	err := coredefaults.Convert_v1_ConfigMap_To_core_ConfigMap(&obj, &internal, nil)
	if l.valid(it, h, &obj.ObjectMeta, err, func() field.ErrorList { return corevalidation.ValidateConfigMap(&internal) }) {
		obj.TypeMeta = typeMeta("v1", h.Kind)
		l.objects.ConfigMaps[obj.Namespace+"/"+obj.Name] = &obj
	}
}

func (l *loader) secret(it item, h header) {
	var obj corev1.Secret
	if !l.decode(it, l.objectName(h), &obj) {
		return
	}
	l.serverFields(&obj.ObjectMeta, true)
	coredefaults.SetObjectDefaults_Secret(&obj)
	// Merge stringData into data, as an API server does: there, stringData is write-only.
	for key, value := range obj.StringData {
		if obj.Data == nil {
			obj.Data = map[string][]byte{}
		}
		obj.Data[key] = []byte(value)
	}
	obj.StringData = nil
	var internal core.Secret
	err := coredefaults.Convert_v1_Secret_To_core_Secret(&obj, &internal, nil)
	if l.valid(it, h, &obj.ObjectMeta, err, func() field.ErrorList {
		return append(corevalidation.ValidateSecret(&internal), credential.Validate(&obj)...)
	}) {
		obj.TypeMeta = typeMeta("v1", h.Kind)
		l.objects.Secrets[obj.Namespace+"/"+obj.Name] = &obj
	}
}

func (l *loader) volumeClaim(it item, h header) {
	var obj corev1.PersistentVolumeClaim
	if !l.decode(it, l.objectName(h), &obj) {
		return
	}
	l.serverFields(&obj.ObjectMeta, true)
	obj.Status = corev1.PersistentVolumeClaimStatus{}
	coredefaults.SetObjectDefaults_PersistentVolumeClaim(&obj)
	var internal core.PersistentVolumeClaim
	err := coredefaults.Convert_v1_PersistentVolumeClaim_To_core_PersistentVolumeClaim(&obj, &internal, nil)
	if l.valid(it, h, &obj.ObjectMeta, err, func() field.ErrorList {
		return corevalidation.ValidatePersistentVolumeClaim(&internal, corevalidation.ValidationOptionsForPersistentVolumeClaimCreate())
	}) {
		if len(l.objects.Claims) == maxClaims {
			l.stop(it.doc, "more than %d PersistentVolumeClaims", maxClaims)
			return
		}
		obj.TypeMeta = typeMeta("v1", h.Kind)
		l.objects.Claims[obj.Namespace+"/"+obj.Name] = &obj
	}
}

func (l *loader) volume(it item, h header) {
	var obj corev1.PersistentVolume
	if !l.decode(it, h.object(), &obj) {
		return
	}
	l.serverFields(&obj.ObjectMeta, false)
	withoutVolumeOrigin(&obj)
	obj.Status = corev1.PersistentVolumeStatus{}
	coredefaults.SetObjectDefaults_PersistentVolume(&obj)
	var internal core.PersistentVolume
	err := coredefaults.Convert_v1_PersistentVolume_To_core_PersistentVolume(&obj, &internal, nil)
	if l.valid(it, h, &obj.ObjectMeta, err, func() field.ErrorList {
		return corevalidation.ValidatePersistentVolume(&internal, corevalidation.ValidationOptionsForPersistentVolume(&internal, nil))
	}) {
		if len(l.objects.Volumes) == maxClaims {
			l.stop(it.doc, "more than %d PersistentVolumes", maxClaims)
			return
		}
		obj.TypeMeta = typeMeta("v1", h.Kind)
		l.objects.Volumes[obj.Name] = &obj
	}
}

func (l *loader) runtimeClass(it item, h header) {
	var obj nodev1.RuntimeClass
	if !l.decode(it, h.object(), &obj) {
		return
	}
	l.serverFields(&obj.ObjectMeta, false)
	var internal node.RuntimeClass
	err := nodeconversion.Convert_v1_RuntimeClass_To_node_RuntimeClass(&obj, &internal, nil)
	if l.valid(it, h, &obj.ObjectMeta, err, func() field.ErrorList { return nodevalidation.ValidateRuntimeClass(&internal) }) {
		obj.TypeMeta = typeMeta("node.k8s.io/v1", h.Kind)
		l.objects.RuntimeClasses[obj.Name] = &obj
	}
}

func (l *loader) priorityClass(it item, h header) {
	var obj schedulingv1.PriorityClass
	if !l.decode(it, h.object(), &obj) {
		return
	}
	l.serverFields(&obj.ObjectMeta, false)
	schedulingdefaults.SetObjectDefaults_PriorityClass(&obj)
	var internal scheduling.PriorityClass
	err := schedulingdefaults.Convert_v1_PriorityClass_To_scheduling_PriorityClass(&obj, &internal, nil)
	if l.valid(it, h, &obj.ObjectMeta, err, func() field.ErrorList { return schedulingvalidation.ValidatePriorityClass(&internal) }) {
		obj.TypeMeta = typeMeta("scheduling.k8s.io/v1", h.Kind)
		l.objects.PriorityClasses[obj.Name] = &obj
	}
}

// valid reports the problems of a converted object. If there are none, it registers the
// object's name.
func (l *loader) valid(it item, h header, meta *metav1.ObjectMeta, err error, validate func() field.ErrorList) bool {
	object := nameOf(h.Kind, meta)
	if err != nil {
		l.add(it.problem(object, "", "FieldValueInvalid", err.Error()))
		return false
	}
	errs := validate()
	l.fieldErrors(it, object, errs)
	return len(errs) == 0 && l.claim(it, h.Kind, qualified(meta))
}

// fieldErrors converts the errors of validation to problems.
func (l *loader) fieldErrors(it item, object string, errs field.ErrorList) {
	for _, e := range errs {
		p := it.problem(object, it.field(e.Field), string(e.Type), cut(e.ErrorBody()))
		p.Hint = fieldHint(e)
		l.add(p)
	}
}

// cut shortens a message that contains a whole struct or a long value.
func cut(message string) string {
	const limit = 1000
	if r := []rune(message); len(r) > limit {
		return string(r[:limit/2]) + " … " + string(r[len(r)-limit/2:])
	}
	return message
}

func qualified(meta *metav1.ObjectMeta) string {
	if meta.Namespace == "" {
		return meta.Name
	}
	return meta.Namespace + "/" + meta.Name
}

func nameOf(kind string, meta *metav1.ObjectMeta) string {
	if meta.Name == "" {
		return kind
	}
	return kind + " " + qualified(meta)
}

// objectName returns the name of a namespaced object before it is decoded.
func (l *loader) objectName(h header) string {
	if h.Metadata.Namespace == "" {
		h.Metadata.Namespace = l.opts.Namespace
	}
	return h.object()
}

// serverFields removes the metadata that only an API server sets, so that an object that was
// exported from a cluster equals the original manifest. If the object belongs in a namespace and
// has none, it sets the default namespace. It also sets a name from generateName. It keeps the
// UID.
func (l *loader) serverFields(meta *metav1.ObjectMeta, namespaced bool) {
	*meta = metav1.ObjectMeta{
		Name: meta.Name, GenerateName: meta.GenerateName, Namespace: meta.Namespace, UID: meta.UID,
		Labels: meta.Labels, Annotations: meta.Annotations,
	}
	switch {
	case !namespaced:
		meta.Namespace = ""
	case meta.Namespace == "":
		meta.Namespace = l.opts.Namespace
	}
	l.generateName(meta)
}

// generateName sets the name of an object that has only a generateName, if the command generates names.
func (l *loader) generateName(meta *metav1.ObjectMeta) {
	if meta.Name == "" && meta.GenerateName != "" && l.opts.Suffix != nil {
		meta.Name = generated(meta.GenerateName, l.opts.Suffix())
	}
}

// unnamed reports an object that has only a generateName, and returns true, if the command does not
// generate names.
func (l *loader) unnamed(it item, object string, meta *metav1.ObjectMeta) bool {
	if meta.Name != "" || meta.GenerateName == "" {
		return false
	}
	l.add(it.problem(object, "metadata.generateName", "FieldValueForbidden", "this command requires metadata.name: it does not generate names"))
	return true
}

// generated returns a generated name as the API server does (apiserver's storage/names). It has at
// most 63 characters, including the suffix.
func generated(base, suffix string) string {
	const longest = 63
	if keep := max(longest-len(suffix), 0); len(base) > keep {
		base = base[:keep]
	}
	return base + suffix
}

// Add adds the objects of another input. If an object other than a pod has the name of an
// existing one, Add keeps the existing one.
func (o *Objects) Add(more *Objects) {
	o.Pods = append(o.Pods, more.Pods...)
	o.Jobs = append(o.Jobs, more.Jobs...)
	o.CronJobs = append(o.CronJobs, more.CronJobs...)
	o.Workloads = append(o.Workloads, more.Workloads...)
	addTo(&o.ConfigMaps, more.ConfigMaps)
	addTo(&o.Secrets, more.Secrets)
	addTo(&o.Claims, more.Claims)
	addTo(&o.Volumes, more.Volumes)
	addTo(&o.Services, more.Services)
	addTo(&o.RuntimeClasses, more.RuntimeClasses)
	addTo(&o.PriorityClasses, more.PriorityClasses)
}

func addTo[T any](to *map[string]T, from map[string]T) {
	if *to == nil {
		*to = map[string]T{}
	}
	for key, o := range from {
		if _, here := (*to)[key]; !here {
			(*to)[key] = o
		}
	}
}

// Objects returns the content of a checkpoint as an input.
func (c Checkpoint) Objects() *Objects {
	o := &Objects{Pods: []Pod{{Object: c.Pod, Definition: c.Definition, SecretsInMemory: c.InMemory, Images: c.Images}}}
	o.Add(&Objects{})
	for _, m := range c.ConfigMaps {
		o.ConfigMaps[m.Namespace+"/"+m.Name] = m
	}
	for _, s := range c.Secrets {
		o.Secrets[s.Namespace+"/"+s.Name] = s
	}
	for _, p := range c.Claims {
		o.Claims[p.Namespace+"/"+p.Name] = p
	}
	for _, v := range c.Volumes {
		o.Volumes[v.Name] = v
	}
	if r := c.RuntimeClass; r != nil {
		o.RuntimeClasses[r.Name] = r
	}
	return o
}

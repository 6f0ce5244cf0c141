package run

import (
	"errors"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/manifest/generate"
	"github.com/podrun/podrun/manifest/input"
	"github.com/podrun/podrun/run/node"
)

// Define computes the new definition of a pod. It is pure. Change calls it several times for a pod: before the pod
// is locked, under the lock, and again if another command changes the pod.
type Define func(Current) (Redefinition, error)

// Current is the definition of a pod before a change.
type Current struct {
	Pod *corev1.Pod // as a manifest contains it (manifest.Editable)
	// Objects are the ConfigMaps and Secrets of ChangeInput.Files and of the pod's checkpoint.
	Objects *manifest.Objects
	// History returns the pod's definitions, oldest first. The last one is the present one.
	History func() ([]Revision, error)
	// First is the first replica of the same workload, as it was before the whole change; nil if the pod is the
	// first one.
	First *Current
}

// Redefinition is a new definition of a pod.
type Redefinition struct {
	Manifest []byte            // YAML or JSON; nil if nothing changes
	Referred *manifest.Objects // objects to which the pod may refer, in addition to those of its checkpoint; nil for none
	Done     string            // describes the change in the output, such as "image updated"
	Notes    []string          // further lines of the output
}

// Redefined returns a new definition with the description of its change.
func Redefined(pod *corev1.Pod, done string) (Redefinition, error) {
	data, err := generate.Manifest(pod)
	return Redefinition{Manifest: data, Done: done}, err
}

// redefining is one Change in progress.
type redefining struct {
	node *node.Node
	ChangeInput
	files   []input.Source
	targets []Target
	// The keys of these maps have the form namespace/name.
	first  map[string]string      // the first replica of the workload of each other replica
	before map[string]*Current    // the definitions before the change
	newest map[string]*corev1.Pod // the last computed definitions
}

// redefined is a computed and validated change of a pod.
type redefined struct {
	Redefinition
	objects  *manifest.Objects // the pod and its objects; nil if nothing changes
	warnings problem.List
}

// redefine is a Redefine.
func (d *redefining) redefine(id identity.Pod, c *manifest.Checkpoint) (*manifest.Objects, error) {
	next, err := d.compute(id, c)
	if next.objects != nil {
		d.newest[id.String()] = next.objects.Pods[0].Object
	}
	return next.objects, problem.In("pod/"+id.Name, err)
}

// current returns the present definition of a pod.
func (d *redefining) current(id identity.Pod, c *manifest.Checkpoint) *Current {
	objects, _ := manifest.Load(d.files, manifest.Options{Namespace: c.Pod.Namespace, Validate: manifest.Ignore})
	objects.Add(c.Objects())
	return &Current{
		Pod:     manifest.Editable(c.Pod),
		Objects: objects,
		History: sync.OnceValues(func() ([]Revision, error) { return History(d.node, id) }),
		First:   d.before[d.first[id.String()]],
	}
}

// compute computes and validates the new definition of a pod.
func (d *redefining) compute(id identity.Pod, c *manifest.Checkpoint) (next redefined, err error) {
	next.Redefinition, err = d.Define(*d.current(id, c))
	if err != nil || next.Manifest == nil {
		return next, err
	}
	objects, problems := d.load(c, next.Manifest, d.files)
	if err := problem.Refuse(problem.Manifest, problems); err != nil {
		return next, err
	}
	if len(objects.Pods) != 1 || objects.Pods[0].Object.Name != c.Pod.Name || objects.Pods[0].Object.Namespace != c.Pod.Namespace {
		return next, problem.UsageError(errors.New("the name, the namespace and the kind of a pod cannot be changed"), "apply a manifest with the new name, then delete this pod")
	}
	pod := &objects.Pods[0]
	if !d.Force && len(d.files) == 0 && len(manifest.Changes(c.Pod, manifest.KeepEphemeral(c.Pod, pod.Object))) == 0 {
		next.warnings = problems.Warnings()
		return next, nil
	}
	pod.Object.UID = c.Pod.UID
	pod.Definition = c.Definition
	pod.WroteDNSPolicy = false
	pod.SecretsInMemory = c.InMemory
	pod.Images = c.Images // by name, so that they do not affect a new image
	for _, more := range []*manifest.Objects{c.Objects(), next.Referred} {
		if more != nil {
			others := *more
			others.Pods = nil
			objects.Add(&others)
		}
	}
	next.objects = objects
	next.warnings = d.newWarnings(c, problems.Warnings())
	return next, nil
}

// load reads and validates a definition, together with files.
func (d *redefining) load(c *manifest.Checkpoint, definition []byte, files []input.Source) (*manifest.Objects, problem.List) {
	sources := append([]input.Source{{Name: "pod/" + c.Pod.Name, Data: definition}}, files...)
	return manifest.Load(sources, manifest.Options{Namespace: c.Pod.Namespace, Validate: d.Validate})
}

// newWarnings returns the warnings about a new definition that the present one does not cause.
func (d *redefining) newWarnings(c *manifest.Checkpoint, warnings problem.List) problem.List {
	if len(warnings) == 0 {
		return nil
	}
	present, err := generate.Manifest(manifest.Editable(c.Pod))
	if err != nil {
		return warnings
	}
	_, known := d.load(c, present, nil)
	return slices.DeleteFunc(warnings, func(w problem.Problem) bool {
		return slices.ContainsFunc(known.Warnings(), func(k problem.Problem) bool {
			return k.Object == w.Object && k.Field == w.Field && k.Message == w.Message
		})
	})
}

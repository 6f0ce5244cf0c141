// Package manifest reads files into the Kubernetes objects that podrun runs, and reports all
// their problems: it splits streams, decodes strictly, and defaults and validates with
// Kubernetes' own code. Only Read, ReadKustomization and SetGates have side effects; the
// rest of the package is pure.
package manifest

import (
	"github.com/podrun/podrun/internal/problem"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
)

// Source is the content of one file, of standard input or of a URL. Name is its name in
// problems; "-" is standard input.
type Source struct {
	Name string
	Data []byte
}

// Validate determines how unknown and duplicate fields are handled. Its values are those of
// kubectl's --validate.
type Validate string

const (
	Strict Validate = "strict" // report errors; the default, also for ""
	Warn   Validate = "warn"   // report warnings
	Ignore Validate = "ignore" // ignore them; the last duplicate applies
)

// Options are the inputs of Load other than the files.
type Options struct {
	Namespace           string        // of objects that specify none; "" means "default"
	Validate            Validate      // "" means Strict
	SkipKinds           []string      // kinds to skip, including kinds that podrun reads, and CustomKinds; case-insensitive
	IgnoreUnknownKinds  bool          // skip kinds that podrun does not read, except those that restrict pods
	StrictClusterFields bool          // report a service account token volume as an error
	Suffix              func() string // returns five random characters for generateName; nil refuses generateName
	// WorkingDir is the absolute working directory. If set, relative hostPaths are resolved
	// against the directory of their file; if empty, they are refused.
	WorkingDir string
	// RestartPolicy, if not empty, replaces the restartPolicy of every pod.
	RestartPolicy corev1.RestartPolicy
	// ToEnd requires that the pods complete: a pod without restartPolicy gets Never, and a pod with
	// restartPolicy Always is a problem.
	ToEnd bool
	// Env replaces or adds these variables in every container and init container.
	Env []corev1.EnvVar
	// Images replaces images, by the name of the container or init container; AllContainers
	// stands for every one. A name that no pod has is a problem.
	Images map[string]string
}

// Position is the position at which an object begins. Line is 1-based.
type Position struct {
	File string `json:"file"`
	Line int    `json:"line"`
}

// Pod is one pod of the input, defaulted and valid.
type Pod struct {
	Object   *corev1.Pod // spec.nodeName is empty, regardless of the file
	Position Position
	From     string // "Deployment web" if created from a pod template, otherwise ""
	NodeName string // spec.nodeName in the file, which podrun replaces by this host
	// Definition is the object that defines the pod; nil for a checkpoint of an older release.
	Definition *Definition
	// WroteDNSPolicy reports whether the file sets spec.dnsPolicy. It is not known for a
	// checkpoint.
	WroteDNSPolicy bool
	// SecretsInMemory is true for a pod of a checkpoint whose Secrets are kept in memory
	// only. They remain there regardless of the settings.
	SecretsInMemory bool

	item item
}

// Objects contains the objects of the sources: namespaced ones by "namespace/name", the
// others by name.
type Objects struct {
	Pods            []Pod // in the order of the input
	ConfigMaps      map[string]*corev1.ConfigMap
	Secrets         map[string]*corev1.Secret
	Claims          map[string]*corev1.PersistentVolumeClaim
	Volumes         map[string]*corev1.PersistentVolume
	RuntimeClasses  map[string]*nodev1.RuntimeClass
	PriorityClasses map[string]*schedulingv1.PriorityClass
	// Skipped contains the names of the objects that podrun does not use, by kind. It may be
	// nil.
	Skipped map[string][]string
}

func newObjects() *Objects {
	return &Objects{
		ConfigMaps:      map[string]*corev1.ConfigMap{},
		Secrets:         map[string]*corev1.Secret{},
		Claims:          map[string]*corev1.PersistentVolumeClaim{},
		Volumes:         map[string]*corev1.PersistentVolume{},
		RuntimeClasses:  map[string]*nodev1.RuntimeClass{},
		PriorityClasses: map[string]*schedulingv1.PriorityClass{},
	}
}

// Locate adds to a problem of this pod its file, line and name. It converts the field path from the
// path in the pod (spec.containers[0].image) to the path in the file
// (spec.template.spec.containers[0].image for a Deployment). A pod of a checkpoint has no file.
func (p Pod) Locate(pr problem.Problem) problem.Problem {
	pr.Object = "Pod " + p.Object.Namespace + "/" + p.Object.Name
	if p.item.doc == nil {
		return pr
	}
	if pr.Field != "" {
		pr.Field = p.item.field(pr.Field)
	}
	pr.File, pr.Line = p.item.doc.file, p.item.line(pr.Field)
	return pr
}

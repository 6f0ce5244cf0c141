// Package manifest reads files into the Kubernetes objects that podrun runs, and reports
// all their problems: it splits streams, decodes strictly, defaults and validates with
// the Kubernetes code itself. Only Read has side effects; the rest of the package is
// pure.
package manifest

import (
	"github.com/podrun/podrun/internal/problem"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
)

// Source is the bytes of one file, of standard input or of a URL. Name is what
// problems call it; "-" is standard input.
type Source struct {
	Name string
	Data []byte
}

// Validate determines how unknown and duplicate fields are handled, with the values of
// kubectl's --validate.
type Validate string

const (
	Strict Validate = "strict" // they are errors; the default, also for ""
	Warn   Validate = "warn"   // they are warnings
	Ignore Validate = "ignore" // they are dropped; the last duplicate counts
)

// Options are the inputs of Load that are not in the files.
type Options struct {
	Namespace           string        // of objects that name none; "default" when empty
	Validate            Validate      // Strict when empty
	SkipKinds           []string      // kinds that are skipped, whatever they are, and CustomKinds; upper and lower case are one
	IgnoreUnknownKinds  bool          // a kind that podrun does not read is skipped, unless it restricts pods
	StrictClusterFields bool          // a service account token volume is an error
	Suffix              func() string // five random characters for generateName; nil refuses generateName
	// WorkingDir is the absolute working directory. With it a relative hostPath is
	// resolved against the directory of its file; empty refuses relative ones.
	WorkingDir string
	// RestartPolicy replaces that of every pod, if it is not empty.
	RestartPolicy corev1.RestartPolicy
	// ToEnd requires that the pods complete: one without restartPolicy gets Never, and
	// one with Always is a problem of the command line.
	ToEnd bool
}

// Position is where an object begins. Line is 1-based.
type Position struct {
	File string `json:"file"`
	Line int    `json:"line"`
}

// Pod is one pod of the input, defaulted and valid.
type Pod struct {
	Object   *corev1.Pod // its spec.nodeName is empty, regardless of the file
	Position Position
	From     string // "Deployment web" when it was made of a pod template, else empty
	NodeName string // spec.nodeName of the file, which podrun replaces by this host
	// WroteDNSPolicy reports whether the file has spec.dnsPolicy; it is unknown for a
	// checkpoint.
	WroteDNSPolicy bool
	// SecretsInMemory is true for a pod of a checkpoint whose Secrets are kept in memory
	// only, where they stay regardless of the settings.
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
	// Skipped are the names of the objects that podrun does not use, by kind; nil for
	// none.
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

// Locate completes a problem about this pod with its file, its line and its
// name. The problem's Field is the pod's (spec.containers[0].image); it becomes
// the file's (spec.template.spec.containers[0].image of a Deployment). A pod of a
// checkpoint has no file.
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

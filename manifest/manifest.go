// Package manifest reads files into the Kubernetes objects that podrun runs, and reports all
// their problems. It splits streams, decodes strictly, and sets defaults and validates with
// Kubernetes' own code. Only Read, ReadKustomization and SetGates have side effects; the rest
// of the package is pure.
package manifest

import (
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
)

// Validate specifies how Load handles unknown and duplicate fields. Its values are those of
// kubectl's --validate.
type Validate string

const (
	// report them as errors; "" has the same meaning, as the default
	Strict Validate = "strict"
	Warn   Validate = "warn" // report warnings
	// ignore them; of duplicates, the last one applies
	Ignore Validate = "ignore"
)

// Options are the inputs of Load other than the files.
type Options struct {
	// the namespace of objects that specify none; "" means "default"
	Namespace string
	Validate  Validate // "" means Strict
	// kinds to skip, in upper or lower case; they may include kinds that podrun reads, and CustomKinds
	SkipKinds []string
	// read Services; otherwise they are skipped like kinds that podrun does not use
	Services bool
	// skip kinds that podrun does not read, except kinds that restrict pods
	IgnoreUnknownKinds  bool
	StrictClusterFields bool // report a service account token volume as an error
	// returns five random characters for generateName; if it is nil, generateName is refused
	Suffix func() string
	// WorkingDir is the absolute working directory. If it is set, Load resolves relative hostPaths
	// against the directory of their file. If it is empty, Load refuses them.
	WorkingDir string
	// RestartPolicy replaces the restartPolicy of every pod, unless it is empty.
	RestartPolicy corev1.RestartPolicy
	// ToEnd requires that the pods complete. A pod without restartPolicy then gets Never, and a pod
	// with restartPolicy Always is a problem.
	ToEnd bool
	// Env adds these variables to every container and init container, or replaces them.
	Env []corev1.EnvVar
	// HonourReplicas makes Load return as many pods as a workload requests, unless an annotation of the
	// workload says otherwise. Scaled returns the number of pods of a workload that does not specify
	// it; false means the default. It may be nil.
	HonourReplicas bool
	Scaled         func(kind string, id identity.Pod) (int32, bool)
	// Controllers makes Load return Jobs and CronJobs as such, instead of one pod for each: the
	// caller runs their controllers.
	Controllers bool
	// Images replaces images. The keys are names of containers or init containers; AllContainers
	// means all of them. If no pod has a container of that name, this is a problem.
	Images map[string]string
}

// Position is the position at which an object begins. Line is 1-based.
type Position struct {
	File string `json:"file"`
	Line int    `json:"line"`
}

// Pod is one pod of the input, defaulted and valid.
type Pod struct {
	// spec.nodeName is empty, whatever the file specifies
	Object   *corev1.Pod
	Position Position
	// "Deployment web" if the pod was created from its pod template, otherwise ""
	From string
	// spec.nodeName in the file, which podrun replaces with this host
	NodeName string
	// Definition is the object that defines the pod. It is nil for a checkpoint of an older
	// release.
	Definition *Definition
	// WroteDNSPolicy reports whether the file sets spec.dnsPolicy. For a checkpoint, podrun does not know that.
	WroteDNSPolicy bool
	// OfCluster is true if the API server of a cluster defines the pod. The controllers and the scheduler of
	// the cluster process the fields that podrun does not.
	OfCluster bool
	// SecretsInMemory is true for a pod of a checkpoint whose Secrets podrun keeps in memory only.
	// podrun keeps them there even if the settings change.
	SecretsInMemory bool
	Images          map[string]string // see Checkpoint.Images

	item item
}

// WorkloadRef returns the kind and the name of the workload from whose template the pod was created; ""
// if there is none.
func (p *Pod) WorkloadRef() (kind, name string) {
	kind, name, _ = strings.Cut(p.From, " ")
	return kind, name
}

// Objects contains the objects of the sources. The keys of objects in a namespace are
// "namespace/name"; the keys of the others are their names.
type Objects struct {
	Pods            []Pod // in the order of the input
	ConfigMaps      map[string]*corev1.ConfigMap
	Secrets         map[string]*corev1.Secret
	Claims          map[string]*corev1.PersistentVolumeClaim
	Volumes         map[string]*corev1.PersistentVolume
	Services        map[string]*corev1.Service // as in the file: without virtual IPs of podrun
	RuntimeClasses  map[string]*nodev1.RuntimeClass
	PriorityClasses map[string]*schedulingv1.PriorityClass
	// Workloads are those whose replicas podrun honours. Pods contains their pods.
	Workloads []Workload
	// Jobs and CronJobs are in the order of the input. They are empty without Options.Controllers.
	Jobs     []Job
	CronJobs []CronJob
	// Skipped contains the names of the objects that podrun does not use. The keys are kinds. It
	// may be nil.
	Skipped map[string][]string
}

func newObjects() *Objects {
	return &Objects{
		ConfigMaps:      map[string]*corev1.ConfigMap{},
		Secrets:         map[string]*corev1.Secret{},
		Claims:          map[string]*corev1.PersistentVolumeClaim{},
		Volumes:         map[string]*corev1.PersistentVolume{},
		Services:        map[string]*corev1.Service{},
		RuntimeClasses:  map[string]*nodev1.RuntimeClass{},
		PriorityClasses: map[string]*schedulingv1.PriorityClass{},
	}
}

// Job is a valid Job of the input, without the API's defaults and without a status.
type Job struct {
	Object *batchv1.Job
	// Template is the pod that results from the pod template, with the Job's name.
	Template Pod
}

// CronJob is a valid CronJob of the input, without the API's defaults and without a status.
type CronJob struct {
	Object   *batchv1.CronJob
	Template Pod // as for a Job
}

// Locate adds to a problem of this pod its file, line and name. It converts the field path in the
// pod (spec.containers[0].image) to the path in the file (for a Deployment,
// spec.template.spec.containers[0].image). A pod of a checkpoint has no file.
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

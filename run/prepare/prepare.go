package prepare

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/admission"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lifecycle"
)

// Change is the relation of a pod in a manifest to the pod of its name on this
// host.
type Change string

// The changes.
const (
	ChangeNew       Change = "new"       // no pod of this name exists on this host
	ChangeUnchanged Change = "unchanged" // the same pod exists
	ChangeUpdate    Change = "update"    // the pod exists, and the API allows the change in place
	ChangeReplace   Change = "replace"   // another pod of this name exists and is removed first
)

// Here is a podrun pod that exists on this host, from its checkpoint.
type Here struct {
	ID  identity.Pod
	Pod *corev1.Pod // as it was planned
	// Made are the objects that it was made from.
	Made manifest.Checkpoint
	// Ending is true if a command has begun to remove it. Its containers may end at any time, even
	// if that command was killed.
	Ending bool
	// Observed is its state in the runtime; nil if it was not read.
	Observed *lifecycle.Observed
	// Ended is true if none of its containers runs or will run again.
	Ended bool
	// Broken is why the checkpoint cannot be read; then the fields above are not
	// set. Corrupt is true if its content is lost.
	Broken  error
	Corrupt bool
}

// Target is one pod of a command: its plan, and the pod that it replaces or
// updates.
type Target struct {
	Plan   *Plan
	Change Change
	Old    []Here // the pods that it replaces
	// Preempts are the pods that are stopped to free resources for it.
	Preempts []identity.Pod
	// Changes are the paths at which it differs from the existing pod.
	Changes []string
	// Problems are those of this pod. They are in the list that Prepare returns,
	// too.
	Problems problem.List
	// Forced is true if the pod is replaced although it is unchanged.
	Forced bool

	UID   string       // of the pod, decided before it is planned
	since *metav1.Time // when the existing pod, which this one continues, was created
	// live are the objects that changed whose content a running pod takes in,
	// frozen those of them that were immutable.
	live, frozen []string
	// hostUsers is why a new pod does not have a user namespace by default.
	hostUsers string
	Was       Here // of a pod that is updated
}

// Seen is what planning needs to know of this host.
type Seen struct {
	Facts      host.Facts
	Here       []Here
	Supervised bool // a supervisor runs, which enforces limits of local storage
	// Holders are the root directories, by UID, of the pods whose cgroups other podruns have;
	// empty for one of an older podrun, which did not note its own.
	Holders map[string]string
}

// Input is the input of All and Compare.
type Input struct {
	Seen
	Objects      *manifest.Objects
	Settings     nodeconfig.Settings
	Invocation   string
	AllowKubelet bool
	Force        bool // replace an existing pod even if it is unchanged
	// ReplaceCorrupt replaces pods whose checkpoints are corrupt: the objects are from a
	// source that is known to define them.
	ReplaceCorrupt bool
	// Debug is added to the ephemeral containers of the pods; nil for none.
	Debug *corev1.EphemeralContainer
	// Now is the creation timestamp of new pods; zero leaves it unset.
	Now time.Time
}

// All plans and admits all pods of a command, before the first side effect:
// each as if those that it replaces were gone, and all of them together. It is
// pure. The list has every problem of all pods, and of the settings; with more
// text than maxText there are no targets.
func All(in Input) ([]Target, problem.List) {
	var targets []Target
	var arriving []admission.Pod
	text := 0 // bytes of variables and arguments so far
	allocatable, problems := admission.Allocatable(in.Facts, in.Settings)
	problems = append(problems, in.corruptState()...)
	input := in.Objects
	in.Objects = bound(input, in.Settings.ClaimDir)
	paths := volumePaths(in.Facts.Paths)
	for _, mp := range in.Objects.Pods {
		pod, classed := manifest.WithClasses(mp.Object, in.Objects)
		of := in.of(pod)
		will := in.debugged(pod)
		t := Compare(will, of)
		forbidden := t.ephemeralProblems(pod, will, in.Debug)
		handler, found := RuntimeHandler(pod, of.Objects)
		pod = in.withUserNamespace(&t, t.withoutEphemeral(will), handler)
		plan, more := NewPlan(PlanInput{
			Pod: pod, UID: t.UID, Objects: of.Objects, Facts: in.Facts, Settings: in.Settings,
			Handler: handler, Invocation: in.Invocation, Allocatable: allocatable,
		})
		if !mp.WroteDNSPolicy {
			plan.forgetMissingDNS()
		}
		if t.since != nil {
			plan.Pod.CreationTimestamp = *t.since
		} else if plan.Pod.CreationTimestamp.IsZero() && !in.Now.IsZero() {
			plan.Pod.CreationTimestamp = metav1.NewTime(in.Now)
		}
		if mp.SecretsInMemory || in.Settings.Secrets == nodeconfig.SecretsInMemory {
			plan.Checkpoint.InMemory = len(plan.Checkpoint.Secrets) > 0
		}
		t.Plan = plan
		in.Facts.UserNS = plan.holding(in.Facts.UserNS) // the command's next pod needs another
		text += plan.text()
		for _, p := range slices.Concat(classed, claimWarnings(pod, input, of.Objects), forbidden, found, more, plan.imageProblems(), t.objectProblems(t.Was), t.brokenProblems(), t.resizeProblems(in.Settings), plan.pathProblems(paths, more), plan.groupProblem(in.Holders, mp.Object.UID == ""), tooMuchText(text)) {
			t.Problems = append(t.Problems, mp.Locate(p))
		}
		if text > maxText {
			return nil, append(problems, t.Problems...)
		}
		targets = append(targets, t)
		arriving = append(arriving, admission.Pod{Pod: plan.Pod, Handler: handler, HostPaths: hostPathsOf(plan.Pod, of.Objects)})
	}
	verdict := admission.CheckAll(arriving, in.Facts, in.Settings, admission.Options{AllowKubelet: in.AllowKubelet, Supervised: in.Supervised})
	for i, mp := range in.Objects.Pods {
		for _, p := range verdict[i].Problems {
			targets[i].Problems = append(withoutVaguer(targets[i].Problems, p), mp.Locate(p))
		}
		targets[i].Plan.WithDevices(verdict[i].Devices)
		for _, p := range verdict[i].Preempts {
			targets[i].Preempts = append(targets[i].Preempts, identity.Pod{Namespace: p.Namespace, Name: p.Name, UID: p.UID})
		}
		problems = append(problems, targets[i].Problems...)
	}
	return targets, problems
}

// maxText limits the size, in bytes, of the variables, arguments and supplemental groups
// of all containers of a command, and of the file names of their volumes: a container may
// have 1.5 MiB, and a pod 50,000 files, of a ConfigMap that all of them share.
const maxText = 64 << 20

// text is the size of the pod's variables, arguments, groups and file names.
func (p *Plan) text() int {
	const file = 256 // bytes for a file, without its content, which volumes share
	n := file * p.Volumes.FileCount()
	for _, c := range p.Containers {
		n += c.Text
	}
	return n
}

func tooMuchText(bytes int) problem.List {
	if bytes <= maxText {
		return nil
	}
	return problem.List{{Field: "spec.containers", Reason: "FieldValueTooLong", Kind: problem.Manifest,
		Message: fmt.Sprintf("with this pod, the variables, arguments and supplemental groups of all containers, and the files of their volumes, exceed %d MiB", maxText>>20),
		Hint:    "use fewer keys of ConfigMaps and Secrets, or apply the pods one by one"}}
}

// withoutVaguer drops the problem that a container cannot be created if p explains it
// with a field below the one that planning reached.
func withoutVaguer(planning problem.List, p problem.Problem) problem.List {
	return slices.DeleteFunc(planning, func(q problem.Problem) bool {
		return !p.Warning && q.Reason == "CreateContainerConfigError" && strings.HasPrefix(p.Field, q.Field+".")
	})
}

// RuntimeHandler returns the handler of the pod's RuntimeClass.
func RuntimeHandler(pod *corev1.Pod, objects *manifest.Objects) (string, problem.List) {
	name := pod.Spec.RuntimeClassName
	if name == nil || *name == "" {
		return "", nil
	}
	if class := objects.RuntimeClasses[*name]; class != nil {
		return class.Handler, nil
	}
	return "", problem.List{{
		Field: "spec.runtimeClassName", Reason: "NotFound",
		Message: fmt.Sprintf("RuntimeClass %q is not in the input", *name),
		Hint:    "add the RuntimeClass to the manifest",
	}}
}

// Refused is the error of a pod that this host may not run, or nil.
func (t Target) Refused() error { return problem.Refuse(problem.Refused, t.Problems) }

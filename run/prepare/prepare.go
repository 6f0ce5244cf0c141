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

// Change is the relation of a pod in a manifest to the existing pod with the same name on this host.
type Change string

// The changes.
const (
	ChangeNew       Change = "new"       // no pod of this name exists on this host
	ChangeUnchanged Change = "unchanged" // the same pod exists
	ChangeUpdate    Change = "update"    // the pod exists, and the API allows the change in place
	// another pod of this name exists, and podrun removes it first
	ChangeReplace Change = "replace"
)

// ExistingPod is a podrun pod that exists on this host, as read from its checkpoint.
type ExistingPod struct {
	ID  identity.Pod
	Pod *corev1.Pod // as planned by podrun
	// Made contains the objects from which the pod was created.
	Made manifest.Checkpoint
	// Ending is true if a command has begun to remove the pod. Its containers may exit at any time,
	// even if that command was killed.
	Ending bool
	// Recreates is true if the command that removes the pod creates it again from its checkpoint.
	Recreates bool
	// Observed is the pod's state in the runtime; nil if podrun did not read it.
	Observed *lifecycle.Observed
	// Ended is true if no container of the pod is running or will run again.
	Ended bool
	// Interrupted is true if a command stopped the pod before it had ended.
	Interrupted bool
	// Broken explains why podrun cannot read the checkpoint. If it is not nil, the fields Pod, Made,
	// Ending, Observed and Ended are not set. Corrupt is true if the content of the checkpoint is
	// lost.
	Broken  error
	Corrupt bool
}

// Target is one pod of a command: its plan, and the pod that it replaces or updates.
type Target struct {
	Plan   *Plan
	Change Change
	Old    []ExistingPod // the pods that this pod replaces
	// Preempts are the pods that podrun stops to free resources for this one.
	Preempts []identity.Pod
	// Changes are the paths of fields that differ from the existing pod.
	Changes []string
	// Problems are the problems of this pod. The list that All returns includes them.
	Problems problem.List
	// Forced is true if podrun replaces the pod although it is unchanged.
	Forced bool

	// KeepsUID is true if the pod keeps its UID although its manifest differs; podrun then also keeps its checkpoint until
	// it has written the new one.
	KeepsUID bool
	UID      string       // the pod's UID, which is determined before the pod is planned
	since    *metav1.Time // creation time of the existing pod, if the pod keeps its UID
	// live contains the changed objects whose new content a running pod receives without a restart.
	// frozen contains the immutable objects among them.
	live, frozen []string
	// hostUsers explains why a new pod does not have a user namespace by default.
	hostUsers string
	Was       ExistingPod // the existing pod, if the change is an update
}

// DefinitionChanged reports whether another object now defines the same pod, or the defining object
// has changed outside its pod template.
func (t Target) DefinitionChanged() bool {
	is := t.Plan.Checkpoint.Definition
	return is != nil && !is.Equal(t.Was.Made.Definition)
}

// definition returns the object that defines the pod. If the input is a Pod with the UID of the
// existing pod, it is the output of 'podrun get pod -o yaml', and does not replace the workload
// that defines the pod.
func (t Target) definition(p manifest.Pod) *manifest.Definition {
	was := t.Was.Made.Definition
	if was != nil && p.Definition.DefinedBy("Pod") && p.Object.UID != "" && string(p.Object.UID) == t.Was.ID.UID {
		return was
	}
	return p.Definition
}

// HostState contains the state of this host that podrun needs for planning.
type HostState struct {
	Facts      host.Facts
	Existing   []ExistingPod
	Supervised bool // true if a supervisor is running; it enforces limits of local storage
	// Holders contains the pods that have a cgroup on this host but belong to another root directory.
	// It maps their UIDs to that directory, or to "" if an older version of podrun created the pod
	// and did not record the directory.
	Holders map[string]string
}

// Input is the input of All and Compare.
type Input struct {
	HostState
	Objects      *manifest.Objects
	Settings     nodeconfig.Settings
	Invocation   string
	AllowKubelet bool
	Force        bool // replace an existing pod even if it is unchanged
	// RestartedAt replaces a pod if its annotation identity.AnnotationRestartedAt changes. A Deployment also
	// replaces its pods in this case, although the API server accepts a change of a pod's annotation in place.
	RestartedAt bool
	// KeepEnded updates a pod that has ended in place, if the API allows the change, and does not start
	// its containers again. If KeepEnded is false, such a pod is replaced.
	KeepEnded bool
	// ReplaceCorrupt replaces pods whose checkpoints are corrupt. The caller sets it only if it
	// knows that the source of the objects defines these pods.
	ReplaceCorrupt bool
	// KeepReferred takes ConfigMaps, Secrets, claims and RuntimeClasses that are not in the objects from the
	// checkpoints of the existing pods. The caller does not set it if the source of the objects defines the pods
	// completely.
	KeepReferred bool
	// KeepUID makes a pod that replaces another one keep its UID.
	KeepUID bool
	// Debug is a container that is added to the pods' ephemeral containers; nil if there is none.
	Debug *corev1.EphemeralContainer
	// Now is the creation timestamp of new pods. If it is zero, new pods have no creation
	// timestamp.
	Now time.Time
}

// All returns the plans of all pods of a command, and admits the pods together, before the first
// side effect. The plans assume that the replaced pods do not exist. It is pure. The list
// contains every problem of all pods and of the settings. If the text in the plans exceeds
// maxText, All returns no targets.
func All(in Input) ([]Target, problem.List) {
	var targets []Target
	var arriving []admission.Pod
	text := 0 // bytes of variables and arguments so far
	allocatable, problems := admission.Allocatable(in.Facts, in.Settings)
	problems = append(problems, in.corruptState()...)
	input := in.Objects
	in.Objects = bindClaims(input, in.Settings.ClaimDir)
	paths := volumePaths(in.Facts.Paths)
	for _, mp := range in.Objects.Pods {
		of, kept := in.forPod(mp.Object)
		of.KeepUID = of.KeepUID || watchesUpdate(mp, in.Settings)
		pod, classed := manifest.WithClasses(mp.Object, of.Objects)
		will := in.withEphemeral(pod)
		t := Compare(will, of)
		forbidden := t.ephemeralProblems(pod, will, in.Debug)
		handler, found := RuntimeHandler(pod, of.Objects)
		pod = in.withUserNamespace(&t, t.withoutEphemeral(will), handler)
		plan, more := NewPlan(PlanInput{
			Pod: pod, UID: t.UID, Definition: t.definition(mp), Objects: of.Objects, Images: mp.Images, Facts: in.Facts, Settings: in.Settings,
			Handler: handler, Invocation: in.Invocation, Allocatable: allocatable,
		})
		if !mp.WroteDNSPolicy {
			plan.dropMissingDNS()
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
		// The next pod of the command needs another range.
		in.Facts.UserNS = plan.withIDRange(in.Facts.UserNS)
		text += plan.text()
		for _, p := range slices.Concat(classed, kept, claimWarnings(pod, input, in.Objects), forbidden, found, more, plan.imageProblems(), t.objectProblems(t.Was), t.brokenProblems(), t.resizeProblems(in.Settings, in.Facts.Cgroup), plan.pathProblems(paths, more), plan.groupProblem(in.Holders, mp.Object.UID == ""), t.replicaProblem(in, mp), tooMuchText(text)) {
			t.Problems = append(t.Problems, mp.Locate(p))
		}
		if text > maxText {
			return nil, append(problems, t.Problems...)
		}
		targets = append(targets, t)
		arriving = append(arriving, admission.Pod{
			Pod:       plan.Pod,
			Handler:   handler,
			HostPaths: hostPathsOf(plan.Pod, of.Objects),
			OfCluster: mp.OfCluster,
		})
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

// maxText limits the total text of a command in bytes: the variables, arguments and supplemental
// groups of all containers, and the names of the files in their volumes. Without this limit, a plan
// could be huge: a container may have 1.5 MiB of text, and all containers of a pod may share 50,000
// files from one ConfigMap.
const maxText = 64 << 20

// text returns the size of the pod's variables, arguments, groups and file names, in bytes.
func (p *Plan) text() int {
	const file = 256 // bytes per file, without the file's content, which the volumes share
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
		Message: fmt.Sprintf("the environment variables, arguments, supplemental groups and volume file names of this pod and the pods before it exceed the total limit of %d MiB", maxText>>20),
		Hint:    "use fewer ConfigMap and Secret keys, or apply the pods one by one"}}
}

// withoutVaguer drops the problem "container cannot be created" from planning if p has the same
// cause and names the field more precisely.
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

// Refused returns the error if this host must not run the pod, or nil.
func (t Target) Refused() error { return problem.Refuse(problem.Refused, t.Problems) }

package supervisor

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/statefile"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve/source"
)

// stepInput is a situation with additional inputs for the steps.
type stepInput struct {
	Situation
	id   identity.Pod // the pod's identity, with the UID of the existing pod
	path string       // path of the source
	// recorded is the path in the source record; it is "" if there is no record.
	recorded string
	broken   error             // why the checkpoint cannot be read; nil if it can be read
	objects  *manifest.Objects // the source's definition: only this pod and the objects to which it may refer
	// documents contains the hashes of the source's documents when they were last applied, or nil if they
	// are unknown. kept is true if a command has defined the pod, and the source's definition of the pod
	// itself has not changed since it was applied: the pod then keeps the definition on disk.
	documents map[string]string
	kept      bool
	// replica is true if the source is the record of a workload. Such a source defines the pod only
	// until the pod exists, and has no source record.
	replica bool
	// ignored are the problems of files that also define the pod, but do not have precedence.
	ignored problem.List
	// grace is the grace period with which a Delete step began; nil for the pod's own.
	grace *time.Duration
}

// containers returns the containers of the source's definition.
func (f stepInput) containers() []corev1.Container {
	if f.objects == nil || len(f.objects.Pods) == 0 {
		return nil
	}
	return f.objects.Pods[0].Object.Spec.Containers
}

// AnnotationRestart requests that podrun restart the pod when a ConfigMap or Secret to which
// the pod refers changes.
const AnnotationRestart = "podrun.dev/restart-on-change"

// situation reads the inputs of Decide. An error means that the pod's state files cannot be
// read.
func (p *pod) situation(now time.Time) (stepInput, error) {
	layout := p.node().Layout()
	record, err := store.ReadSource(layout, p.id)
	if err != nil {
		return stepInput{}, err
	}
	owner, err := store.ReadOwner(layout, p.id)
	if err != nil {
		return stepInput{}, err
	}
	in := p.s.wanted(p.id, record)
	if record != nil {
		in.Applied, in.recorded, in.documents = record.Hash, record.Path, record.Documents
	}
	p.mu.Lock()
	in.Now, in.Failed, in.RetryApply = now, p.failures[Apply].hash, p.failures[Apply].retry
	in.RetryAttend, in.RetryDelete = p.failures[Attend].retry, p.failures[Delete].retry
	in.Evict = p.eviction != nil
	ended := p.ended
	p.mu.Unlock()
	in.id = p.id
	if owner != nil {
		in.id.UID = owner.UID
		in.Owned = owner.Live(layout)
		in.Doomed = owner.Removes()
		in.Run = owner.Origin != nil && owner.Origin.Command == store.OriginRun
		in.Ended = owner.Generation == ended
	} else if in.id, err = storedPod(layout, p.id); err != nil {
		return stepInput{}, err
	}
	in.Exists = in.id.UID != "" && store.HasCheckpoint(layout, in.id.UID)
	if !in.Exists {
		return in, nil
	}
	in.FromSource = owner.FromSource()
	in.Stopped = observe.IsStopped(layout, in.id.UID)
	kept := observe.ReadKept(layout, in.id.UID)
	in.ShutDown = !kept.ShutDown.IsZero() && p.s.shutdown.begun()
	if kept.Evicted != nil {
		in.Evicted, in.RetryEvicted = true, kept.Evicted.At.Add(p.node().Settings.EvictionPressureTransitionPeriod)
		in.Pressure = p.s.pressure.any()
	}
	known := observe.ReadKnown(layout, in.id)
	if statefile.IsUnreadable(known.Broken) {
		return stepInput{}, known.Broken // the checkpoint may be intact
	}
	in.broken, in.Broken, in.SecretsLost = known.Broken, known.Broken != nil, known.LostSecrets != nil
	in.Surplus = p.s.surplus(known)
	unknown := owner == nil || owner.Origin == nil
	// podrun does not supervise a pod with a corrupt checkpoint, so no worker determines whether the pod
	// has ended.
	if in.Broken {
		in.Ended = in.Ended || kept.Terminal() && kept.ShutDown.IsZero()
		in.Unclaimed = unknown
	}
	if in.Source == Present && known.Pod != nil {
		pod := in.objects.Pods[0].Object
		same := sync.OnceValue(func() bool {
			return len(manifest.Changes(known.Pod, manifest.KeepEphemeral(known.Pod, pod))) == 0
		})
		in.kept = !unknown && !in.SecretsLost && keepsDefinition(owner.Origin, in.documents, in.objects)
		switch {
		case in.Hash == in.Applied:
		case in.kept:
			in.Restart = known.Pod.Annotations[AnnotationRestart] == "true"
		default:
			in.Restart = pod.Annotations[AnnotationRestart] == "true" && same()
		}
		in.Unclaimed = unknown && same()
	}
	return in, nil
}

// storedPod finds the directory of a pod that has no owner record, because an older version of
// podrun created the pod.
func storedPod(layout identity.Layout, id identity.Pod) (identity.Pod, error) {
	stored, err := store.StoredPods(layout)
	for _, s := range stored {
		if s.Namespace == id.Namespace && s.Name == id.Name {
			return s, nil
		}
	}
	return id, err
}

// surplus reports whether a pod is a replica of a workload that must have fewer pods.
func (s *Supervisor) surplus(k observe.Known) bool {
	if !k.Definition.Honours() {
		return false
	}
	workload := k.Definition.WorkloadName(k.ID.Name)
	index, ok := manifest.ReplicaIndex(workload, k.ID.Name)
	s.mu.Lock()
	defer s.mu.Unlock()
	n, known := s.want.Replicas[k.Definition.Kind+" "+k.ID.Namespace+"/"+workload]
	return ok && known && index >= int(n)
}

// wanted returns the inputs from the manifest directories: whether and how they define the pod.
func (s *Supervisor) wanted(id identity.Pod, record *store.SourceRecord) stepInput {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ignored problem.List
	if s.want != nil {
		ignored = s.want.Ignored[id.Namespace+"/"+id.Name]
	}
	if i, ok := s.desired[id]; ok {
		objects := s.want.Objects(i)
		in := stepInput{Situation: Situation{Source: Present, Hash: hashOf(objects), Once: s.want.Pods[i].Once, Final: s.want.Pods[i].Final}, path: s.want.Pods[i].Path, objects: objects, ignored: ignored,
			replica: s.want.Pods[i].Referred != nil && !s.want.Pods[i].Final}
		if in.Once && record != nil && record.Hash != "" {
			// Later changes of the objects to which the pod refers do not affect it.
			in.Hash = record.Hash
		}
		return in
	}
	if record == nil {
		return stepInput{Situation: Situation{Source: NoSource}}
	}
	final := source.IsAPIServerPath(record.Path)
	if may, _ := s.snapshot.MayDefine(record.Path); may {
		return stepInput{Situation: Situation{Source: Unreachable, Final: final}, path: record.Path, ignored: ignored}
	}
	return stepInput{Situation: Situation{Source: Gone, Final: final}, path: record.Path}
}

// hashOf returns a hash of a pod and the objects to which it refers.
func hashOf(o *manifest.Objects) string {
	data, err := manifest.Referred(o.Pods[0].Object, o).Marshal()
	if err != nil {
		// The objects contain no pod. Merge never returns such objects.
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

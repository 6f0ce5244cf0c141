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
	// update is the record of the pod's update; nil if there is none.
	update *store.UpdateRecord
	// workload is the workload of a pod that is one of several replicas; "" for another pod. template is the hash of the
	// source's definition of the workload, or of the pod.
	workload, template string
	rejected           *store.Rejected // see Situation.Rejected
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
		in.Applied = record.Hash
		in.recorded = record.Path
		in.documents = record.Documents
	}
	in.Now = now
	p.failures.addTo(&in.Situation)
	p.mu.Lock()
	ended := p.ended
	p.mu.Unlock()
	in.id = p.id
	terminated := false
	if owner != nil {
		in.id.UID = owner.UID
		in.Owned = owner.Live(layout)
		in.Doomed = owner.Removes()
		in.Origin = originOf(owner)
		terminated = owner.Generation == ended
	} else if in.id, err = storedPod(layout, p.id); err != nil {
		return stepInput{}, err
	}
	if err := p.addUpdate(&in); err != nil {
		return stepInput{}, err
	}
	if in.id.UID == "" || !store.HasCheckpoint(layout, in.id.UID) {
		return in, nil
	}
	kept := observe.ReadKept(layout, in.id.UID)
	switch {
	case observe.IsStopped(layout, in.id.UID):
		in.Halt = HaltStopped
	case !kept.ShutDown.IsZero() && p.s.shutdown.begun():
		in.Halt = HaltShutDown
	}
	if kept.Evicted != nil {
		in.RetryEvicted = kept.Evicted.At.Add(p.node().Settings.EvictionPressureTransitionPeriod)
		in.Pressure = p.s.pressure.any()
	}
	known := observe.ReadKnown(layout, in.id)
	if statefile.IsUnreadable(known.Broken) {
		return stepInput{}, known.Broken // the checkpoint may be intact
	}
	in.broken = known.Broken
	in.Checkpoint = checkpointOf(known)
	if in.Checkpoint != CheckpointIntact && (in.update == nil || in.update.Rejected == nil) {
		in.Rejected, in.rejected = false, nil // the pod has no last good definition
	}
	in.Surplus = p.s.surplus(known)
	// podrun does not supervise a pod with a corrupt checkpoint, so no worker determines whether the pod
	// has ended.
	if in.Checkpoint == CheckpointCorrupt {
		terminated = terminated || kept.Terminal() && kept.ShutDown.IsZero()
		if unknownOrigin(owner) {
			in.Origin = OriginUnclaimed
		}
	}
	in.Phase = phaseOf(terminated, kept.Evicted != nil, p.eviction.due())
	if in.Source == Present && known.Pod != nil {
		in.compare(known.Pod, owner)
	}
	return in, nil
}

// compare sets what depends on the difference between the source's definition and the pod on disk.
func (f *stepInput) compare(onDisk *corev1.Pod, owner *store.OwnerRecord) {
	pod := f.objects.Pods[0].Object
	same := sync.OnceValue(func() bool {
		return len(manifest.Changes(onDisk, manifest.KeepEphemeral(onDisk, pod))) == 0
	})
	unknown := unknownOrigin(owner)
	f.kept = !unknown && f.Checkpoint != CheckpointWithoutSecrets && keepsDefinition(owner.Origin, f.documents, f.objects)
	switch {
	case f.Hash == f.Applied:
	case f.kept:
		f.Restart = onDisk.Annotations[AnnotationRestart] == "true"
	default:
		f.Restart = pod.Annotations[AnnotationRestart] == "true" && same()
	}
	if unknown && same() {
		f.Origin = OriginUnclaimed
	}
}

// unknownOrigin reports whether there is no record of what applied the pod.
func unknownOrigin(owner *store.OwnerRecord) bool { return owner == nil || owner.Origin == nil }

// originOf returns the origin of a pod with an owner record; OriginCommand if it is unknown.
func originOf(owner *store.OwnerRecord) Origin {
	switch {
	case owner.FromSource():
		return OriginSource
	case owner.Origin != nil && owner.Origin.Command == store.OriginRun:
		return OriginRun
	}
	return OriginCommand
}

// checkpointOf returns the state of the checkpoint of a pod on this host.
func checkpointOf(k observe.Known) Checkpoint {
	switch {
	case k.Broken != nil:
		return CheckpointCorrupt
	case k.LostSecrets != nil:
		return CheckpointWithoutSecrets
	}
	return CheckpointIntact
}

// phaseOf returns the phase of a pod that has terminated or not, that podrun has evicted or not, and whose eviction is
// requested or not. An eviction whose end this process has not observed counts as not ended: attending the pod finds that.
func phaseOf(terminated, evicted, evict bool) Phase {
	switch {
	case terminated && evicted:
		return PhaseEvicted
	case terminated:
		return PhaseEnded
	case evict:
		return PhaseEvictionDue
	}
	return PhaseActive
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
		wanted := s.want.Pods[i]
		in := stepInput{
			Situation: Situation{Source: Present, Hash: hashOf(objects)},
			path:      wanted.Path,
			objects:   objects,
			ignored:   ignored,
			replica:   wanted.Referred != nil && !wanted.Final,
		}
		switch {
		case wanted.Once:
			in.Controller = ControllerJob
		case wanted.Final:
			in.Controller = ControllerCluster
		}
		if in.Controller == ControllerJob && record != nil && record.Hash != "" {
			// Later changes of the objects to which the pod refers do not affect it.
			in.Hash = record.Hash
		}
		return in
	}
	if record == nil {
		return stepInput{Situation: Situation{Source: NoSource}}
	}
	controller := ControllerNone
	if source.IsAPIServerPath(record.Path) {
		controller = ControllerCluster
	}
	if may, _ := s.snapshot.MayDefine(record.Path); may {
		return stepInput{Situation: Situation{Source: Unreachable, Controller: controller}, path: record.Path, ignored: ignored}
	}
	return stepInput{Situation: Situation{Source: Gone, Controller: controller}, path: record.Path}
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

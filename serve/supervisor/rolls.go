package supervisor

import (
	"maps"
	"sync"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/store"
)

// rolls are the updates of workloads with several replicas, one replica after the other. The keys of the maps are workloads,
// such as "Deployment shop/web".
type rolls struct {
	mu sync.Mutex
	// updating are the replicas whose update has begun. passed are those that have been ready for long enough, with the hash
	// of their definition.
	updating map[string]map[identity.Pod]bool
	passed   map[string]map[identity.Pod]string
	rejected map[string]*store.Rejected
}

// restore reads the rejected definitions of workloads.
func (r *rolls) restore(layout identity.Layout) error {
	updates, err := store.ReadUpdates(layout)
	for _, u := range updates {
		if u.Rejected != nil {
			r.reject(u.Rejected)
		}
	}
	return err
}

// reject records the rejected definition of a workload.
func (r *rolls) reject(of *store.Rejected) {
	if of == nil || of.Workload == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if last := r.rejected[of.Workload]; last != nil && of.At.Before(last.At) {
		return
	}
	put(&r.rejected, of.Workload, of)
}

// put adds an element to a map, which may be nil.
func put[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = value
}

// rejection returns the rejected definition of a workload; nil if there is none.
func (r *rolls) rejection(workload string) *store.Rejected {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rejected[workload]
}

// begin begins the update of a replica, unless that of limit others is in progress. The argument others has the replicas
// whose update another process began.
func (r *rolls) begin(workload string, id identity.Pod, limit int, others map[identity.Pod]bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[identity.Pod]bool{}
	maps.Copy(all, others)
	maps.Copy(all, r.updating[workload])
	maps.DeleteFunc(all, func(other identity.Pod, _ bool) bool { return other == id || r.passed[workload][other] != "" })
	if len(all) >= limit {
		return false
	}
	of := r.updating[workload]
	put(&of, id, true)
	put(&r.updating, workload, of)
	delete(r.passed[workload], id)
	return true
}

// pass records that a replica has been ready for long enough. It reports whether that is new.
func (r *rolls) pass(workload string, id identity.Pod, hash string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.updating[workload], id)
	of := r.passed[workload]
	is := of[id] != hash
	put(&of, id, hash)
	put(&r.passed, workload, of)
	return is
}

// hasPassed reports whether a replica has passed with this definition.
func (r *rolls) hasPassed(workload string, id identity.Pod, hash string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.passed[workload][id] == hash
}

// end ends the update of a replica that did not pass.
func (r *rolls) end(workload string, id identity.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.updating[workload], id)
	delete(r.passed[workload], id)
}

// workloadOf returns the workload of a pod that is one of several replicas, such as "Deployment shop/web"; "" for another pod.
func workloadOf(id identity.Pod, d *manifest.Definition) string {
	if !d.Honours() {
		return ""
	}
	return d.Kind + " " + id.Namespace + "/" + d.WorkloadName(id.Name)
}

// templateOf returns the workload of a pod that is one of several replicas, and the hash of the workload's definition in the
// source, which is that of the first replica. For another pod, the hash is that of the pod's definition.
func (s *Supervisor) templateOf(id identity.Pod, in stepInput) (workload, hash string) {
	if in.objects == nil || len(in.objects.Pods) == 0 {
		return "", in.Hash
	}
	d := in.objects.Pods[0].Definition
	if workload = workloadOf(id, d); workload == "" {
		return "", in.Hash
	}
	first := identity.Pod{Namespace: id.Namespace, Name: d.WorkloadName(id.Name)}
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.desired[first]
	if !ok || first == id {
		return workload, in.Hash
	}
	if hash = s.templates[workload]; hash == "" {
		hash = hashOf(s.want.Objects(i))
		s.templates[workload] = hash
	}
	return workload, hash
}

// replicas returns the other pods of the sources that belong to a workload.
func (s *Supervisor) replicas(of identity.Pod, workload string) (out []identity.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, i := range s.desired {
		if id != of && workloadOf(id, s.want.Pods[i].Definition) == workload {
			out = append(out, id)
		}
	}
	return out
}

// checkReplicas makes the other replicas of a workload compare their situations with their steps.
func (s *Supervisor) checkReplicas(of identity.Pod, workload string) {
	if workload == "" {
		return
	}
	for _, id := range s.replicas(of, workload) {
		s.mu.Lock()
		p := s.pods[id]
		s.mu.Unlock()
		if p != nil {
			p.check()
		}
	}
}

// passed records that a replica has been ready for long enough. It reports whether all replicas have the definition and have
// been ready for long enough.
func (s *Supervisor) passed(p *pod, workload, hash string) bool {
	if s.rolls.pass(workload, p.id, hash) {
		s.checkReplicas(p.id, workload)
	}
	for _, id := range s.replicas(p.id, workload) {
		if s.rolls.hasPassed(workload, id, hash) {
			continue
		}
		u, err := store.ReadUpdate(s.current().Layout(), id)
		if err != nil || u == nil || u.State != store.UpdateGood || u.Source != hash {
			return false
		}
	}
	return true
}

// mayUpdate reports whether the update of a pod may begin: of the replicas of a workload, podrun updates at most as many at
// the same time as may be unavailable, if it watches their updates.
func (p *pod) mayUpdate(in stepInput) bool {
	if in.workload == "" || !in.exists() || !in.changed() {
		return true
	}
	of := in.objects.Pods[0]
	if deadline, err := manifest.ProgressDeadline(of.Object, of.Definition, p.node().Settings.ProgressDeadline); err != nil || deadline == 0 {
		return true
	}
	others := map[identity.Pod]bool{}
	replicas := p.s.replicas(p.id, in.workload)
	for _, id := range replicas {
		if u, err := store.ReadUpdate(p.node().Layout(), id); err == nil && u != nil && u.State == store.UpdateProgressing && u.Source == in.template {
			others[id] = true
		}
	}
	return p.s.rolls.begin(in.workload, p.id, of.Definition.MaxUnavailable(len(replicas)+1), others)
}

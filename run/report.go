package run

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/servicesync"
)

// Report is what an operation has done, even if the operation returns an error.
type Report struct {
	// Entries has one record for each object, in the order in which the operation acted on them.
	Entries []Entry
	// Started means that Apply has passed the steps that it undoes if they fail.
	Started bool
	// Missing are named objects that do not exist, if the input ignores them.
	Missing []lookup.Ref
	// Notes are warnings that depend on the whole report.
	Notes problem.List
}

// Entry is the outcome for one object. Only a pod has a status, containers or a definition.
type Entry struct {
	Kind string // of the object, as in its manifest: Pod, Service, CronJob, Deployment
	reconcile.Result
	Pod *corev1.Pod // the pod's definition, or nil if the operation did not know it
	// Ref is the object by which the user selected an existing pod: the pod, or a workload that defines it. It is empty
	// for other entries.
	Ref lookup.Ref
	// Done and Notes are those of the Redefinition by which Change has changed the pod.
	Done  string
	Notes []string
	// Unrequested means that the input does not contain the object: the operation removed a surplus
	// replica, or a pod that --prune selects.
	Unrequested bool
	// Remains means that objects of a failed pod are still on this host.
	Remains bool
}

// The kinds of entries that most operations have.
const (
	kindPod     = "Pod"
	kindService = "Service"
	kindCronJob = "CronJob"
)

// Pods returns the entries of pods.
func (r Report) Pods() []Entry { return r.Of(kindPod) }

// Of returns the entries of one kind.
func (r Report) Of(kind string) (out []Entry) {
	for _, e := range r.Entries {
		if e.Kind == kind {
			out = append(out, e)
		}
	}
	return out
}

// Err returns the errors of the objects, joined.
func (r Report) Err() error {
	var errs []error
	for _, e := range r.Entries {
		errs = append(errs, e.Err)
	}
	return errors.Join(errs...)
}

// add appends the results of pods.
func (r *Report) add(unrequested bool, results ...Result) {
	for _, of := range results {
		r.Entries = append(r.Entries, Entry{Kind: kindPod, Result: of, Unrequested: unrequested})
	}
}

// addServices appends the changes of Services.
func (r *Report) addServices(unrequested bool, changes ...servicesync.Change) {
	for _, s := range changes {
		r.Entries = append(r.Entries, Entry{Kind: kindService, Unrequested: unrequested,
			Result: Result{ID: identity.Pod{Namespace: s.Namespace, Name: s.Name}, Outcome: Outcome(s.Outcome)}})
	}
}

// drop removes the entries of a kind.
func (r *Report) drop(kind string) {
	r.Entries = slices.DeleteFunc(r.Entries, func(e Entry) bool { return e.Kind == kind })
}

// ReportOf returns the report of an operation on pods.
func ReportOf(results []Result) Report {
	var r Report
	r.add(false, results...)
	return r
}

// ReportOfServices returns the report of an operation on Services.
func ReportOfServices(changes []servicesync.Change) Report {
	var r Report
	r.addServices(false, changes...)
	return r
}

// ended fills in how the containers of the requested pods have ended, from the pods' statuses.
func (r *Report) ended() {
	for i, e := range r.Entries {
		if e.Kind == kindPod && !e.Unrequested && e.Pod != nil {
			r.Entries[i].Containers = lifecycle.EndedContainers(e.Pod, e.Status)
		}
	}
}

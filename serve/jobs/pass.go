package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve/schedule"
	"github.com/podrun/podrun/serve/source"
)

// pass makes one decision for all Jobs and CronJobs, while the records are locked.
type pass struct {
	c        *Controller
	snapshot *source.Snapshot
	want     *source.Desired
	states   map[string]map[string]schedule.PodState // by the UID of the Job and the name of the pod
	records  *store.Records
	now      time.Time
	next     time.Time
}

func newPass(c *Controller, snapshot *source.Snapshot, want *source.Desired, states map[string]map[string]schedule.PodState) (*pass, error) {
	records, err := store.ReadRecords(c.options.Layout)
	if err != nil {
		return nil, err
	}
	for path, err := range records.Unreadable {
		c.warn(path, "Unreadable", err.Error()+": podrun keeps the pods that it defines; remove the file to delete them")
	}
	return &pass{c: c, snapshot: snapshot, want: want, states: states, records: records, now: c.options.Now()}, nil
}

// run records the definitions in files, and then decides. An error affects only some of the
// objects.
func (p *pass) run() error {
	var errs []error
	for _, w := range p.want.CronJobs {
		errs = append(errs, p.recordCronJob(w))
	}
	for _, w := range p.want.Jobs {
		errs = append(errs, p.recordJob(w))
	}
	for _, r := range slices.Clone(p.records.CronJobs) {
		errs = append(errs, p.cronJob(r))
	}
	for i := 0; i < len(p.records.Jobs); i++ {
		removed, err := p.job(i)
		errs = append(errs, err)
		if removed {
			i--
		}
	}
	return errors.Join(errs...)
}

// wake sets the time of the next decision, unless an earlier time is set.
func (p *pass) wake(at time.Time) {
	if !at.IsZero() && (p.next.IsZero() || at.Before(p.next)) {
		p.next = at
	}
}

func key(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }

func (p *pass) findJob(name string) *store.JobRecord {
	for _, r := range p.records.Jobs {
		if key(r.Job) == name {
			return r
		}
	}
	return nil
}

func (p *pass) findCronJob(name string) *store.CronJobRecord {
	for _, r := range p.records.CronJobs {
		if key(r.CronJob) == name {
			return r
		}
	}
	return nil
}

// same reports whether two values are equal as JSON.
func same(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// created sets the metadata of a new object.
func (p *pass) created(o metav1.Object) {
	o.SetUID(uuid.NewUUID())
	o.SetCreationTimestamp(metav1.NewTime(p.now.Truncate(time.Second)))
}

// recordCronJob records the definition of a CronJob in a file.
func (p *pass) recordCronJob(w source.CronJob) error {
	layout := p.c.options.Layout
	if p.records.Unreadable[layout.CronJob(w.Namespace, w.Name)] != nil {
		return nil
	}
	r := p.findCronJob(key(w.CronJob))
	if r == nil {
		r = &store.CronJobRecord{CronJob: w.CronJob.DeepCopy(), Path: w.Path}
		p.created(r.CronJob)
		p.records.CronJobs = append(p.records.CronJobs, r)
		return store.WriteCronJob(layout, r)
	}
	changed := !same(r.CronJob.Spec, w.Spec)
	if r.Deleted && changed {
		// The file defines another CronJob.
		fresh := &store.CronJobRecord{CronJob: w.CronJob.DeepCopy(), Path: w.Path}
		p.created(fresh.CronJob)
		*r = *fresh
		return store.WriteCronJob(layout, r)
	}
	if r.Deleting() || !changed && r.Path == w.Path && same(r.CronJob.Labels, w.Labels) && same(r.CronJob.Annotations, w.Annotations) {
		return nil
	}
	r.Path = w.Path
	r.CronJob.Spec = w.CronJob.DeepCopy().Spec
	r.CronJob.Labels = w.Labels
	r.CronJob.Annotations = w.Annotations
	return store.WriteCronJob(layout, r)
}

// recordJob records the definition of a Job in a file.
func (p *pass) recordJob(w source.Job) error {
	layout := p.c.options.Layout
	if p.records.Unreadable[layout.Job(w.Namespace, w.Name)] != nil {
		return nil
	}
	r := p.findJob(key(w.Job))
	switch {
	case r == nil:
		r = &store.JobRecord{Job: w.Job.DeepCopy(), Path: w.Path}
		p.created(r.Job)
		p.records.Jobs = append(p.records.Jobs, r)
		return store.WriteJob(layout, r)
	case r.Path == "":
		p.c.warn("Job "+key(w.Job)+" in "+source.Shown(w.Path), "FieldValueDuplicate", "ignored: a CronJob or a command has created a Job of this name")
		return nil
	case manifest.ReplacesJob(r.Job, w.Job):
		if r.Deleted {
			*r = store.JobRecord{Job: w.Job.DeepCopy(), Path: w.Path}
			p.created(r.Job)
			return store.WriteJob(layout, r)
		}
		if r.Job.DeletionTimestamp == nil {
			r.Job.DeletionTimestamp = &metav1.Time{Time: p.now}
			return store.WriteJob(layout, r)
		}
		return nil
	case r.Deleting() || r.Path == w.Path && same(r.Job.Spec, w.Spec) && same(r.Job.Labels, w.Labels) && same(r.Job.Annotations, w.Annotations):
		return nil
	}
	r.Path = w.Path
	r.Job.Spec = w.Job.DeepCopy().Spec
	r.Job.Labels = w.Labels
	r.Job.Annotations = w.Annotations
	return store.WriteJob(layout, r)
}

// defined reports whether a file defines, or may define, an object with this path in its record.
// wanted is true if a file is known to define it.
func (p *pass) defined(path string, wanted bool) bool {
	if path == "" || wanted {
		return true
	}
	may, _ := p.snapshot.MayDefine(path)
	return may
}

// wantedJob returns the definition of a Job in a file; nil if there is none.
func (p *pass) wantedJob(name string) *source.Job {
	for i := range p.want.Jobs {
		if key(p.want.Jobs[i].Job) == name {
			return &p.want.Jobs[i]
		}
	}
	return nil
}

// cronJob decides for one CronJob.
func (p *pass) cronJob(r *store.CronJobRecord) error {
	layout := p.c.options.Layout
	wanted := slices.ContainsFunc(p.want.CronJobs, func(w source.CronJob) bool { return key(w.CronJob) == key(r.CronJob) })
	if !p.defined(r.Path, wanted) && !(r.CronJob.DeletionTimestamp != nil) {
		r.CronJob.DeletionTimestamp = &metav1.Time{Time: p.now}
		if err := store.WriteCronJob(layout, r); err != nil {
			return err
		}
	}
	if r.CronJob.DeletionTimestamp != nil {
		return p.deleteCronJob(r, p.ownedBy(r), r.Path != "" && p.defined(r.Path, wanted))
	}
	if r.Starting != nil {
		// An earlier podrun process was killed before it finished the start.
		if err := p.finishStart(r); err != nil {
			return err
		}
	}
	return p.decideCronJob(r, p.ownedBy(r))
}

// ownedBy returns the Jobs of a CronJob.
func (p *pass) ownedBy(r *store.CronJobRecord) (owned []*store.JobRecord) {
	for _, j := range p.records.Jobs {
		if j.OwnedBy(r.CronJob) {
			owned = append(owned, j)
		}
	}
	return owned
}

// deleteCronJob deletes the Jobs of a CronJob and then its record. If its file still defines the CronJob,
// or may define it, the record remains, so that podrun does not run the CronJob again.
func (p *pass) deleteCronJob(r *store.CronJobRecord, owned []*store.JobRecord, defined bool) error {
	layout := p.c.options.Layout
	if len(owned) > 0 {
		var errs []error
		for _, j := range owned {
			errs = append(errs, p.deleteJob(j))
		}
		return errors.Join(errs...)
	}
	if !defined {
		// A file may define another CronJob with this name: record it in the next pass.
		p.wake(p.now)
		p.records.CronJobs = slices.DeleteFunc(p.records.CronJobs, func(other *store.CronJobRecord) bool { return other == r })
		return store.RemoveCronJob(layout, r.CronJob)
	}
	if r.Deleted {
		return nil
	}
	p.wake(p.now)
	r.Deleted = true
	r.Starting = nil
	r.CronJob.Status = batchv1.CronJobStatus{}
	return store.WriteCronJob(layout, r)
}

// deleteJob marks a Job for deletion.
func (p *pass) deleteJob(r *store.JobRecord) error {
	if r.Deleting() {
		return nil
	}
	r.Job.DeletionTimestamp = &metav1.Time{Time: p.now}
	return store.WriteJob(p.c.options.Layout, r)
}

// decideCronJob starts and deletes Jobs of a CronJob.
func (p *pass) decideCronJob(r *store.CronJobRecord, owned []*store.JobRecord) error {
	layout, object := p.c.options.Layout, "CronJob "+key(r.CronJob)
	in := schedule.CronJobInput{CronJob: manifest.CronJobWithDefaults(r.CronJob), Now: p.now}
	var err error
	if in.Timetable, err = schedule.Parse(r.CronJob); err != nil {
		p.c.warn(object, "InvalidSchedule", err.Error())
		return nil
	}
	for _, j := range owned {
		if j.Deleting() {
			in.Deleting++
		} else {
			in.Jobs = append(in.Jobs, j.Job)
		}
	}
	d, err := schedule.CronJob(in)
	if err != nil {
		d.Warning = err.Error()
	}
	p.c.warn(object, "MissSchedule", d.Warning)
	p.wake(d.Next)
	var errs []error
	if d.Start != nil {
		d.Start.UID = uuid.NewUUID()
	}
	if d.Start != nil || !same(d.Status, r.CronJob.Status) {
		r.CronJob.Status = d.Status
		r.Starting = d.Start
		if err := store.WriteCronJob(layout, r); err != nil {
			return err
		}
	}
	for _, j := range owned {
		if slices.Contains(d.Delete, j.Job.Name) {
			errs = append(errs, p.deleteJob(j))
		}
	}
	if r.Starting != nil {
		errs = append(errs, p.finishStart(r))
	}
	return errors.Join(errs...)
}

// finishStart writes the record of the Job that a CronJob starts, unless one of this name exists.
func (p *pass) finishStart(r *store.CronJobRecord) error {
	layout, job := p.c.options.Layout, r.Starting
	path := layout.Job(job.Namespace, job.Name)
	existing := p.findJob(key(job))
	switch {
	case p.records.Unreadable[path] != nil:
	case existing == nil:
		record := &store.JobRecord{Job: job}
		if err := store.WriteJob(layout, record); err != nil {
			return err
		}
		p.records.Jobs, existing = append(p.records.Jobs, record), record
	case !existing.OwnedBy(r.CronJob):
		p.c.warn("CronJob "+key(r.CronJob), "FailedCreate", fmt.Sprintf("did not start a run: another Job has the name %s", job.Name))
		existing = nil
	}
	r.Starting = nil
	if existing != nil && !existing.Deleting() && !lifecycle.JobFinished(existing.Job) && !slices.ContainsFunc(r.CronJob.Status.Active, func(a corev1.ObjectReference) bool { return a.UID == existing.Job.UID }) {
		r.CronJob.Status.Active = append(r.CronJob.Status.Active, corev1.ObjectReference{
			APIVersion: "batch/v1",
			Kind:       "Job",
			Namespace:  job.Namespace,
			Name:       job.Name,
			UID:        existing.Job.UID,
		})
	}
	return store.WriteCronJob(layout, r)
}

// job decides for the Job at index i. removed is true if the record was removed.
func (p *pass) job(i int) (removed bool, err error) {
	layout, r := p.c.options.Layout, p.records.Jobs[i]
	wanted := p.wantedJob(key(r.Job))
	if !p.defined(r.Path, wanted != nil) && r.Job.DeletionTimestamp == nil {
		r.Job.DeletionTimestamp = &metav1.Time{Time: p.now}
		if err := store.WriteJob(layout, r); err != nil {
			return false, err
		}
	}
	if r.Deleting() && len(r.Pods) == 0 {
		return p.removeJob(i, wanted)
	}
	in := schedule.JobInput{
		Record: r.DeepCopy(),
		Pods:   p.states[string(r.Job.UID)],
		Taken:  func(name string) bool { return p.taken(r, name) },
		Now:    p.now,
	}
	in.Record.Job = manifest.WithDefaults(r.Job)
	d := schedule.Job(in)
	p.wake(d.Next)
	if slices.ContainsFunc(d.Record.Pods, func(pod store.JobPod) bool {
		return pod.State == store.JobPodActive || pod.State == store.JobPodStopping
	}) {
		p.wake(p.now.Add(pollActive))
	}
	// The decision used the API's defaults; the record keeps the Job as its author wrote it.
	d.Record.Job.Spec = r.Job.Spec
	d.Record.Job.Labels = r.Job.Labels
	if d.Delete && d.Record.Job.DeletionTimestamp == nil {
		d.Record.Job.DeletionTimestamp = &metav1.Time{Time: p.now}
		p.wake(p.now)
	}
	if same(d.Record, r) {
		return false, nil
	}
	if lifecycle.JobFinished(d.Record.Job) && !lifecycle.JobFinished(r.Job) {
		// The CronJob of this Job now has one fewer active Job.
		p.wake(p.now)
	}
	p.records.Jobs[i] = d.Record
	if err := store.WriteJob(layout, d.Record); err != nil {
		p.records.Jobs[i] = r
		return false, err
	}
	if d.Record.Deleting() && len(d.Record.Pods) == 0 {
		return p.removeJob(i, wanted)
	}
	return false, nil
}

// removeJob removes the record of a Job without pods. If a file still defines the Job, it keeps
// the record and marks it as deleted, so that podrun does not run the Job again.
func (p *pass) removeJob(i int, wanted *source.Job) (removed bool, err error) {
	layout, r := p.c.options.Layout, p.records.Jobs[i]
	defined := r.Path != "" && p.defined(r.Path, wanted != nil)
	if defined && (wanted == nil || !manifest.ReplacesJob(r.Job, wanted.Job)) {
		if r.Deleted {
			return false, nil
		}
		r.Deleted = true
		return false, store.WriteJob(layout, r)
	}
	if err := store.RemoveJob(layout, r.Job); err != nil {
		return false, err
	}
	p.records.Jobs = slices.Delete(p.records.Jobs, i, i+1)
	// The file may define another Job with this name, or a CronJob that is being deleted may wait
	// for this Job.
	p.wake(p.now)
	return true, nil
}

// taken reports whether a pod of another object has this name.
func (p *pass) taken(r *store.JobRecord, name string) bool {
	id := identity.Pod{Namespace: r.Job.Namespace, Name: name}
	for i := range p.want.Pods {
		if p.want.Pods[i].Key() == id.String() {
			return true
		}
	}
	for _, other := range p.records.Jobs {
		if other != r && other.Job.Namespace == r.Job.Namespace && slices.ContainsFunc(other.Pods, func(pod store.JobPod) bool { return pod.Name == name }) {
			return true
		}
	}
	owner, err := store.ReadOwner(p.c.options.Layout, id)
	if err != nil {
		return true
	}
	from, err := store.ReadSource(p.c.options.Layout, id)
	if owner == nil {
		// podrun has applied a pod with this name that no longer exists: it was a pod of an earlier Job. If
		// this Job used the name, the pod would count as its failed pod.
		return err != nil || from != nil && from.Hash != ""
	}
	// An older podrun may have started this pod from the same file. The Job then adopts it.
	if err != nil || from == nil || r.Path == "" || from.Path != r.Path {
		return true
	}
	// The file may have defined a Pod or a Deployment with this name before.
	c, err := store.ReadCheckpoint(p.c.options.Layout, owner.UID)
	return err != nil || c != nil && c.Definition != nil && c.Definition.Kind != "Job"
}

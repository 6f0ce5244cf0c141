package source

import (
	"fmt"
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
)

// Pod is one pod that a file defines.
type Pod struct {
	manifest.Pod
	// the File.Path of the pod's file; podrun records it as the pod's source
	Path string
	// Once is true for a pod that podrun applies only once: the pod of a Job.
	Once bool
	// Own are objects of this pod only, which take precedence over those of the directories; nil if there
	// are none.
	Own *manifest.Dependencies
	// Referred are the objects to which the pod refers. It is set for a missing replica of a workload that
	// a command applied and for a pod of an API server, and nil for other pods, which refer to
	// Desired.Shared.
	Referred *manifest.Objects
	// Final is true for a pod that podrun never starts again after it has ended, because its owner
	// replaces it: a pod of an API server.
	Final bool
}

// Workload is a workload of a file whose replicas podrun honours, and the File.Path of that file.
type Workload struct {
	manifest.Workload
	Path string
}

// Job is a Job that a file defines, and the File.Path of that file.
type Job struct {
	*batchv1.Job
	Path string
}

// CronJob is a CronJob that a file defines, and the File.Path of that file.
type CronJob struct {
	*batchv1.CronJob
	Path string
}

// Key returns namespace/name.
func (p *Pod) Key() string { return keyOf(&p.Pod) }

// Desired is the combined content of all directories. It is immutable, and shares its
// objects with the Snapshot.
type Desired struct {
	Pods []Pod // ordered by directory, file and position in the file
	// Workloads are ordered like Pods, which contain their replicas.
	Workloads []Workload
	// Replicas are the numbers of pods that workloads must have, by kind and namespace/name, separated by
	// a space. Other pods of these workloads must be removed.
	Replicas map[string]int32
	// Jobs and CronJobs are ordered like Pods.
	Jobs     []Job
	CronJobs []CronJob
	// Shared contains the objects, from all directories, to which pods can refer, and the Services; it
	// has no pods.
	Shared *manifest.Objects
	// ServicePaths has the File.Path of each of the Services.
	ServicePaths map[string]string
	// Problems names each object that Merge ignored because another file has one with the same
	// name. Ignored contains the problems of pods by namespace/name.
	Problems problem.List
	Ignored  map[string]problem.List
}

// Objects returns pod i with all objects to which it can refer. The results for different pods
// share their maps.
func (d *Desired) Objects(i int) *manifest.Objects {
	shared := d.Shared
	if d.Pods[i].Referred != nil {
		shared = d.Pods[i].Referred
	}
	out := d.Pods[i].Own.Over(shared)
	out.Pods = []manifest.Pod{d.Pods[i].Pod}
	return out
}

// All returns all pods with the objects to which they can refer. The result uses the maps of
// Shared, so that a call of ServeClaims on it affects every pod.
func (d *Desired) All() *manifest.Objects {
	out := *d.Shared
	for i := range d.Pods {
		out.Pods = append(out.Pods, d.Pods[i].Pod)
	}
	return &out
}

// News returns the problems of d that the earlier state "before" does not have. If before is nil, it
// returns all problems.
func (d *Desired) News(before *Desired) problem.List {
	if before == nil {
		return d.Problems
	}
	known := map[problem.Problem]bool{}
	for _, p := range before.Problems {
		known[p] = true
	}
	return slices.DeleteFunc(slices.Clone(d.Problems), func(p problem.Problem) bool { return known[p] })
}

// merger merges files. owners contains the positions of the objects so far, by kind and name.
// uids contains the positions of the pods that specify a UID, by UID.
type merger struct {
	desired *Desired
	owners  map[string]manifest.Position
	uids    map[string]string
	origins *origins
}

// Merge combines the files of all directories. Of two objects with the same name, it uses the one
// from the earlier directory. In the same directory, it uses the one from the file whose name
// sorts first. A Missing file comes last: if the file was renamed, the file with the new name takes
// precedence.
func Merge(s *Snapshot) *Desired { return MergeFrom(s, nil) }

// MergeFrom is Merge for a host that has already applied objects. The function origin returns the path of
// the file from which an object (Pod, Job or CronJob, namespace/name) of this host came; "" if the object is
// not on this host, or a command applied it. This file has precedence for the object as long as it exists, so
// that a copy does not replace the object, whatever its name. A file that loses an object in this way comes
// after all others, because its ConfigMaps and Secrets are probably copies, too.
func MergeFrom(s *Snapshot, origin func(kind, key string) string) *Desired {
	d := &Desired{Shared: &manifest.Objects{}, ServicePaths: map[string]string{}, Ignored: map[string]problem.List{}}
	d.Shared.Add(&manifest.Objects{}) // creates the maps
	m := merger{desired: d, owners: map[string]manifest.Position{}, uids: map[string]string{}, origins: newOrigins(s, origin)}
	for turn := range turns {
		for i := range s.Dirs {
			for j := range s.Dirs[i].Files {
				if f := &s.Dirs[i].Files[j]; f.Objects != nil && m.origins.turn(f) == turn {
					m.file(f)
				}
			}
		}
	}
	if len(d.Problems) > maxNews {
		d.Problems = append(d.Problems[:maxNews:maxNews], problem.Problem{Reason: "TooManyProblems",
			Message: fmt.Sprintf("and %d more duplicates", len(d.Problems)-maxNews)})
	}
	return d
}

func (m *merger) file(f *File) {
	for _, p := range f.Objects.Pods {
		key := keyOf(&p)
		if !m.claim(f, "Pod", key, p.Position) || !m.claimUID(f, &p) {
			continue
		}
		m.desired.Pods = append(m.desired.Pods, Pod{Pod: p, Path: f.Path})
	}
	for _, w := range f.Objects.Workloads {
		// A workload without pods claims the name of its first pod, too.
		name := "Pod " + keyOf(&w.First)
		if w.Replicas == 0 && !m.claim(f, "Pod", keyOf(&w.First), w.First.Position) || m.owners[name] != w.First.Position {
			continue
		}
		m.desired.Workloads = append(m.desired.Workloads, Workload{Workload: w, Path: f.Path})
	}
	for _, j := range f.Objects.Jobs {
		if m.claim(f, "Job", keyOf(&j.Template), j.Template.Position) {
			m.desired.Jobs = append(m.desired.Jobs, Job{Job: j.Object, Path: f.Path})
		}
	}
	for _, c := range f.Objects.CronJobs {
		if m.claim(f, "CronJob", keyOf(&c.Template), c.Template.Position) {
			m.desired.CronJobs = append(m.desired.CronJobs, CronJob{CronJob: c.Object, Path: f.Path})
		}
	}
	into := m.desired.Shared
	mergeKind(m, f, "ConfigMap", into.ConfigMaps, f.Objects.ConfigMaps)
	mergeKind(m, f, "Secret", into.Secrets, f.Objects.Secrets)
	mergeKind(m, f, "PersistentVolumeClaim", into.Claims, f.Objects.Claims)
	mergeKind(m, f, "PersistentVolume", into.Volumes, f.Objects.Volumes)
	mergeServices(m, f)
	mergeKind(m, f, "RuntimeClass", into.RuntimeClasses, f.Objects.RuntimeClasses)
	mergeKind(m, f, "PriorityClass", into.PriorityClasses, f.Objects.PriorityClasses)
}

func mergeKind[T any](m *merger, f *File, kind string, into, from map[string]T) {
	for _, key := range slices.Sorted(maps.Keys(from)) {
		if m.claim(f, kind, key, manifest.Position{File: printable(f.Path)}) {
			into[key] = from[key]
		}
	}
}

func mergeServices(m *merger, f *File) {
	into := m.desired.Shared.Services
	before := len(into)
	mergeKind(m, f, "Service", into, f.Objects.Services)
	if len(into) == before {
		return
	}
	for key, s := range f.Objects.Services {
		if into[key] == s {
			m.desired.ServicePaths[key] = f.Path
		}
	}
}

// claim registers an object under its name, or reports that another file has precedence for an object with
// that name.
func (m *merger) claim(f *File, kind, key string, at manifest.Position) bool {
	object := kind + " " + key
	first, taken := m.owners[object]
	message := "ignored: an object with the same name is in " + place(first)
	if origin := m.origins.of(f, kind, key); origin != "" {
		taken, message = true, "ignored: an object with the same name is in "+origin
	}
	if !taken {
		m.owners[object] = at
		return true
	}
	if f.State != Missing {
		p := problem.Problem{File: at.File, Line: at.Line, Object: object,
			Field: "metadata.name", Reason: "FieldValueDuplicate", Message: message, Hint: "rename or remove one of them"}
		m.desired.Problems = append(m.desired.Problems, p)
		if kind == "Pod" {
			m.desired.Ignored[key] = append(m.desired.Ignored[key], p)
		}
	}
	return false
}

// claimUID refuses a second pod with the same UID, because the pods would share a directory
// and a cgroup.
func (m *merger) claimUID(f *File, p *manifest.Pod) bool {
	uid := string(p.Object.UID)
	if uid == "" {
		return true
	}
	first, taken := m.uids[uid]
	if !taken {
		m.uids[uid] = "Pod " + keyOf(p) + " in " + place(p.Position)
		return true
	}
	delete(m.owners, "Pod "+keyOf(p))
	if f.State != Missing {
		m.desired.Problems = append(m.desired.Problems, p.Locate(problem.Problem{Field: "metadata.uid", Reason: "FieldValueDuplicate",
			Message: "ignored: " + first + " has the same UID", Hint: "remove metadata.uid: podrun then generates a UID"}))
	}
	return false
}

func place(at manifest.Position) string {
	if at.Line > 0 {
		return fmt.Sprintf("%s:%d", at.File, at.Line)
	}
	return at.File
}

package serve

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve/nodeapi"
	"github.com/podrun/podrun/serve/source"
)

// removedSources returns the sources that podrun no longer reads although objects of these sources are on
// this host: podrun keeps the objects until a command deletes them. Why contains the command.
func removedSources(layout identity.Layout, snapshot *source.Snapshot) []nodeapi.Source {
	k := &keptObjects{snapshot: snapshot}
	k.addPods(layout)
	k.addJobs(layout)
	k.addServices(layout)
	for i := range k.sources {
		k.sources[i].Why = "podrun serve does not read it, and keeps its objects: to delete them, run " + deleteCommands(k.sources[i].Kept)
	}
	return k.sources
}

// deleteCommands returns the commands that delete objects: one for each namespace, and one for the Services
// of a namespace, because `podrun delete` does not accept them together with other objects.
func deleteCommands(kept []nodeapi.KeptObject) string {
	group := func(o nodeapi.KeptObject) string {
		return fmt.Sprint(o.Namespace, strings.HasPrefix(o.Object, "service/"))
	}
	var commands []string
	for len(kept) > 0 {
		first, command := kept[0], "podrun delete -n "+kept[0].Namespace
		kept = slices.DeleteFunc(slices.Clone(kept), func(o nodeapi.KeptObject) bool {
			if group(o) == group(first) {
				command += " " + o.Object
			}
			return group(o) == group(first)
		})
		commands = append(commands, "'"+command+"'")
	}
	return strings.Join(commands, " and ")
}

// keptObjects collects the objects whose sources podrun no longer reads. It omits objects whose records
// cannot be read.
type keptObjects struct {
	snapshot *source.Snapshot
	sources  []nodeapi.Source
}

// add adds an object that came from the file at path, if podrun no longer reads its source. The kind and the
// name are those of the object to delete, which has the given number of pods.
func (k *keptObjects) add(path, kind, namespace, name string, pods int) {
	if path == "" || k.snapshot.Reads(path) {
		return
	}
	from := path
	if !source.IsRemote(path) {
		from = filepath.Dir(path)
	}
	from = source.Shown(from)
	i := slices.IndexFunc(k.sources, func(s nodeapi.Source) bool { return s.Name == from })
	if i < 0 {
		i = len(k.sources)
		k.sources = append(k.sources, nodeapi.Source{Name: from, State: nodeapi.RemovedSource})
	}
	s := &k.sources[i]
	s.Pods += pods
	if o := (nodeapi.KeptObject{Namespace: namespace, Object: strings.ToLower(kind) + "/" + name}); !slices.Contains(s.Kept, o) {
		s.Kept = append(s.Kept, o)
	}
}

// addPods adds the pods that no command has applied since they came from their files, or the workloads that
// define these pods.
func (k *keptObjects) addPods(layout identity.Layout) {
	stored, err := store.StoredPods(layout)
	if err != nil {
		return
	}
	slices.SortFunc(stored, func(a, b identity.Pod) int { return strings.Compare(a.String(), b.String()) })
	for _, id := range stored {
		record, err := store.ReadSource(layout, id)
		if err != nil || record == nil || k.snapshot.Reads(record.Path) {
			continue
		}
		if owner, err := store.ReadOwner(layout, id); err != nil || !owner.FromSource() {
			continue
		}
		kind, name := "Pod", id.Name
		if known := observe.ReadKnown(layout, id); known.Definition != nil {
			kind, name = known.Definition.Kind, known.Definition.WorkloadName(id.Name)
		}
		k.add(record.Path, kind, id.Namespace, name, 1)
	}
}

// addJobs adds the Jobs that no CronJob created, and the CronJobs. Their pods have no files.
func (k *keptObjects) addJobs(layout identity.Layout) {
	records, err := store.ReadRecords(layout)
	if err != nil {
		return
	}
	for _, r := range records.Jobs {
		if !r.Deleted && !r.Deleting() {
			k.add(r.Path, "Job", r.Job.Namespace, r.Job.Name, len(r.Pods))
		}
	}
	for _, r := range records.CronJobs {
		if !r.Deleted {
			k.add(r.Path, "CronJob", r.CronJob.Namespace, r.CronJob.Name, 0)
		}
	}
}

func (k *keptObjects) addServices(layout identity.Layout) {
	records, _, err := store.ReadServices(layout)
	if err != nil {
		return
	}
	for _, r := range records {
		k.add(r.Origin, "Service", r.Service.Namespace, r.Service.Name, 0)
	}
}

package serve

import (
	"strings"
	"sync"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/store"
)

// Origins returns a function that returns the paths of the files from which the objects of this host came; see
// source.MergeFrom. If a record cannot be read, the file is unknown.
func Origins(layout identity.Layout) func(kind, key string) string {
	records := sync.OnceValue(func() map[string]string {
		out := map[string]string{}
		stored, err := store.ReadRecords(layout)
		if err != nil {
			return out
		}
		for _, r := range stored.Jobs {
			out["Job "+r.Job.Namespace+"/"+r.Job.Name] = r.Path
		}
		for _, r := range stored.CronJobs {
			out["CronJob "+r.CronJob.Namespace+"/"+r.CronJob.Name] = r.Path
		}
		return out
	})
	return func(kind, key string) string {
		if kind != "Pod" {
			return records()[kind+" "+key]
		}
		namespace, name, _ := strings.Cut(key, "/")
		record, err := store.ReadSource(layout, identity.Pod{Namespace: namespace, Name: name})
		if err != nil || record == nil || !lookup.IsStored(layout, namespace, name) {
			return ""
		}
		return record.Path
	}
}

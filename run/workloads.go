package run

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/store"
)

// WorkloadView is a workload, with its status.
type WorkloadView struct {
	Kind   string
	Object interface {
		runtime.Object
		metav1.Object
	}
	Pods []*corev1.Pod // in the order of the replicas
}

// Workloads returns the workloads that define pods, and those that have been scaled to 0, in a
// namespace. The namespace "" means all namespaces. The result is sorted by namespace, name and
// kind.
func Workloads(n *node.Node, views []lookup.View, namespace string, now time.Time) ([]WorkloadView, error) {
	var out []WorkloadView
	records, err := workloadRecords(n, namespace)
	if err != nil {
		return nil, err
	}
	replicas := map[string][]lookup.View{}
	for _, v := range views {
		if v.Definition.Honours() {
			key := v.Definition.Kind + " " + v.ID.Namespace + "/" + v.Definition.WorkloadName(v.ID.Name)
			replicas[key] = append(replicas[key], v)
			continue
		}
		w, err := workloadOf(v.Pod, v.Definition, []lookup.View{v}, nil, now)
		if err != nil {
			return nil, err
		}
		out = appendWorkload(out, w)
	}
	for key, of := range replicas {
		slices.SortFunc(of, func(a, b lookup.View) int { return replicaOf(a) - replicaOf(b) })
		record := records[key]
		delete(records, key)
		w, err := workloadOf(of[0].Pod, of[0].Definition, of, record, now)
		if err != nil {
			return nil, err
		}
		out = appendWorkload(out, w)
	}
	for _, r := range records {
		c, err := r.Checkpoint()
		if err != nil || c == nil || r.Deleted {
			continue
		}
		w, err := workloadOf(c.Pod, c.Definition, nil, r, now)
		if err != nil {
			return nil, err
		}
		out = appendWorkload(out, w)
	}
	slices.SortFunc(out, func(a, b WorkloadView) int {
		return cmp.Or(cmp.Compare(a.Object.GetNamespace(), b.Object.GetNamespace()), cmp.Compare(a.Object.GetName(), b.Object.GetName()), cmp.Compare(a.Kind, b.Kind))
	})
	return out, nil
}

func appendWorkload(out []WorkloadView, w *WorkloadView) []WorkloadView {
	if w == nil {
		return out
	}
	return append(out, *w)
}

// replicaOf returns the index of a pod among the replicas of its workload.
func replicaOf(v lookup.View) int {
	index, _ := manifest.ReplicaIndex(v.Definition.WorkloadName(v.ID.Name), v.ID.Name)
	return index
}

// workloadRecords reads the records of a namespace, by kind and namespace/name.
func workloadRecords(n *node.Node, namespace string) (map[string]*store.WorkloadRecord, error) {
	records, unreadable, err := store.ReadWorkloads(n.Layout(), namespace)
	if err != nil {
		return nil, err
	}
	if unreadable != nil {
		n.WarnOnce(problem.WarningOf(unreadable))
	}
	out := map[string]*store.WorkloadRecord{}
	for i := range records {
		out[records[i].Kind+" "+records[i].ID.String()] = &records[i]
	}
	return out, nil
}

// workloadOf returns the workload that defines a pod, or nil if no workload defines it. The argument
// record may be nil.
func workloadOf(pod *corev1.Pod, by *manifest.Definition, views []lookup.View, record *store.WorkloadRecord, now time.Time) (*WorkloadView, error) {
	o, err := manifest.WorkloadObject(pod, by)
	if o == nil || err != nil {
		return nil, err
	}
	w := &WorkloadView{Kind: by.Kind}
	w.Object, _ = o.(interface {
		runtime.Object
		metav1.Object
	})
	if record != nil {
		manifest.SetReplicas(o, record.Replicas)
	}
	for _, v := range views {
		w.Pods = append(w.Pods, v.Object)
	}
	lifecycle.SetWorkloadStatus(o, w.Pods, now)
	return w, nil
}

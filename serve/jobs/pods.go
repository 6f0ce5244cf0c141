package jobs

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve/source"
)

// publish replaces the pods of the controller with those of the records. It reports whether they
// have changed.
func (c *Controller) publish(records *store.Records) (changed bool) {
	unreadable := maps.Clone(records.Unreadable)
	built := map[string]source.Pod{}
	own, dependencies := dependenciesOf(records)
	unread := map[identity.Pod]bool{}
	var pods []source.Pod
	for _, r := range records.Jobs {
		path := c.options.Layout.Job(r.Job.Namespace, r.Job.Name)
		for _, jp := range r.Pods {
			if jp.State == store.JobPodStopping || jp.State == store.JobPodActive {
				unread[identity.Pod{Namespace: r.Job.Namespace, Name: jp.Name}] = false
			}
			if jp.State == store.JobPodStopping {
				continue
			}
			id := string(r.Job.UID) + "/" + jp.Name
			p, ok := c.built[id]
			if !ok {
				var err error
				if p, err = podOf(r, jp); err != nil {
					// The pod may exist, and must not be deleted.
					unreadable[path] = err
					c.warn("Job "+key(r.Job), "InvalidTemplate", err.Error())
					continue
				}
				p.Path = path
				p.Once = true
			}
			p.Own = nil
			if owner := metav1.GetControllerOf(r.Job); owner != nil {
				p.Own = own[owner.UID]
			}
			built[id] = p
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, func(a, b source.Pod) int { return cmp.Compare(a.Key(), b.Key()) })
	c.built = built
	c.mu.Lock()
	defer c.mu.Unlock()
	// Two Jobs that had the same name one after the other have different pods.
	names := func(pods []source.Pod) (out []string) {
		for i := range pods {
			out = append(out, pods[i].Key()+" "+pods[i].Path+" "+pods[i].Object.Labels[batchv1.ControllerUidLabel])
		}
		return out
	}
	known := map[string]bool{}
	for _, r := range records.Jobs {
		known[key(r.Job)] = true
	}
	changed = !slices.Equal(names(c.pods), names(pods)) || !slices.Equal(slices.Sorted(maps.Keys(c.unreadable)), slices.Sorted(maps.Keys(unreadable))) || !maps.Equal(c.known, known) || c.dependencies != dependencies
	for id := range unread {
		unread[id] = c.unread[id]
	}
	c.unread = unread
	c.pods = pods
	c.unreadable = unreadable
	c.known = known
	c.dependencies = dependencies
	return changed
}

// dependenciesOf returns the objects that were applied with CronJobs, by the UID of the CronJob, and a hash
// of all of them.
func dependenciesOf(records *store.Records) (own map[types.UID]*manifest.Dependencies, hash string) {
	own = map[types.UID]*manifest.Dependencies{}
	sum := sha256.New()
	for _, c := range records.CronJobs {
		if c.Dependencies == nil {
			continue
		}
		own[c.CronJob.UID] = c.Dependencies
		data, _ := json.Marshal(c.Dependencies) // was read as JSON
		fmt.Fprintf(sum, "%s %d ", c.CronJob.UID, len(data))
		sum.Write(data)
	}
	return own, hex.EncodeToString(sum.Sum(nil))
}

// podOf returns a pod of a Job, with the labels and, for an Indexed Job, the index that the Job
// controller sets.
func podOf(r *store.JobRecord, jp store.JobPod) (source.Pod, error) {
	j := r.Job.DeepCopy()
	t := &j.Spec.Template
	if t.Labels == nil {
		t.Labels = map[string]string{}
	}
	for _, key := range []string{batchv1.JobNameLabel, "job-name"} {
		t.Labels[key] = j.Name
	}
	for _, key := range []string{batchv1.ControllerUidLabel, "controller-uid"} {
		t.Labels[key] = string(j.UID)
	}
	// The API server generates the selector from the labels.
	j.Spec.Selector = nil
	j.Spec.ManualSelector = nil
	if jp.Index != nil {
		setIndex(j.Name, t, strconv.Itoa(int(*jp.Index)))
	}
	p, problems := manifest.PodOfJob(j, jp.Name)
	if errs := problems.Errors(); len(errs) > 0 {
		return source.Pod{}, &problem.Error{Kind: problem.Manifest, Err: errors.Join(errNoPod, errors.New(errs[0].String()))}
	}
	// The template in the record has its defaults, so the file may have omitted the policy.
	p.WroteDNSPolicy = false
	return source.Pod{Pod: p}, nil
}

// setIndex sets the completion index in a pod template, as the Job controller does.
func setIndex(job string, t *corev1.PodTemplateSpec, index string) {
	if t.Annotations == nil {
		t.Annotations = map[string]string{}
	}
	t.Annotations[batchv1.JobCompletionIndexAnnotation], t.Labels[batchv1.JobCompletionIndexAnnotation] = index, index
	if t.Spec.Hostname == "" {
		t.Spec.Hostname = job + "-" + index
	}
	const name = "JOB_COMPLETION_INDEX"
	for _, containers := range [][]corev1.Container{t.Spec.InitContainers, t.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			c.Env = append(slices.DeleteFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == name }), corev1.EnvVar{Name: name, Value: index})
		}
	}
}

package run

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/store"
)

// refreshes reports whether Apply updates the copies of ConfigMaps and Secrets in existing pods. With Prune, an input
// without pods deletes pods, so it must not keep them up to date.
func (a *application) refreshes() bool {
	return a.Objects.OnlyReferred() && len(a.CronJobs) == 0 && a.Prune == nil
}

// refreshPods replaces the copies of the input's ConfigMaps and Secrets in the pods that refer to them, if the input
// has no other objects. As with the kubelet, volumes change without a restart, and environment variables at the next
// start of a container. If no pod refers to one of the objects, the error is of kind Manifest, and no pod is changed.
func (a *application) refreshPods(ctx context.Context) error {
	if !a.refreshes() {
		return nil
	}
	pods, referred, err := referringPods(a.node, a.Objects)
	if err != nil {
		return err
	}
	copies, err := unreferred(a.node, a.Objects, referred)
	if err != nil {
		return err
	}
	a.node.SendWarnings(copies)
	changed := map[string]bool{}
	options := a.Options
	options.DefineOnly = true
	results, err := ChangePods(ctx, a.node, pods, func(id identity.Pod, c *manifest.Checkpoint) (*manifest.Objects, error) {
		if refreshable, err := isRefreshable(a.node, id); !refreshable || err != nil {
			return nil, err
		}
		objects := c.Refreshed(a.Objects)
		live, _, _ := c.Diff(manifest.Referred(c.Pod, objects))
		if len(live) == 0 {
			return nil, nil
		}
		for _, name := range live {
			changed[name] = true
		}
		return objects, nil
	}, options)
	if err != nil {
		return err
	}
	report := ReportOf(results)
	for _, name := range slices.Sorted(maps.Keys(referred)) {
		kind, key, _ := strings.Cut(name, " ")
		namespace, object, _ := strings.Cut(key, "/")
		outcome := OutcomeUnchanged
		switch {
		case changed[name] && report.Err() != nil:
			outcome = OutcomeFailed
		case changed[name]:
			outcome = OutcomeConfigured
		}
		a.report.Entries = append(a.report.Entries, Entry{Kind: kind, Result: Result{ID: identity.Pod{Namespace: namespace, Name: object}, Outcome: outcome}})
	}
	return report.Err()
}

// referringPods returns the pods on this host that refer to ConfigMaps and Secrets of the input, and the names of
// these objects. It skips pods whose checkpoints cannot be read, with a warning.
func referringPods(n *node.Node, in *manifest.Objects) (pods []Known, referred map[string]bool, err error) {
	stored, err := lookup.Stored(n)
	if err != nil {
		return nil, nil, err
	}
	referred = map[string]bool{}
	for _, id := range stored {
		c, err := lookup.StoredCheckpoint(n, id)
		if err != nil {
			n.WarnOnce(problem.WarningOf(err))
		}
		if c == nil || err != nil {
			continue
		}
		names := manifest.Referred(c.Pod, in).ReferredNames()
		if len(names) == 0 {
			continue
		}
		refreshable, err := isRefreshable(n, id)
		if err != nil {
			return nil, nil, err
		}
		if !refreshable {
			continue
		}
		pods = append(pods, Known{ID: id, Pod: c.Pod, Definition: c.Definition})
		for _, name := range names {
			referred[name] = true
		}
	}
	slices.SortFunc(pods, func(x, y Known) int { return strings.Compare(x.ID.String(), y.ID.String()) })
	return pods, referred, nil
}

// isRefreshable reports whether an Apply of ConfigMaps and Secrets alone changes a pod. It does not change pods that a
// command is removing, those of `podrun run`, and those of the Jobs of `podrun serve`: a pod that runs to completion
// keeps the objects with which it started.
func isRefreshable(n *node.Node, id identity.Pod) (bool, error) {
	owner, err := store.ReadOwner(n.Layout(), id)
	if err != nil {
		return false, err
	}
	if owner != nil && (owner.Removes() || owner.UID != id.UID || owner.Origin != nil && owner.Origin.Command == store.OriginRun) {
		return false, nil
	}
	source, err := store.ReadSource(n.Layout(), id)
	return source == nil || filepath.Dir(source.Path) != n.Layout().Jobs(), err
}

// Referring returns the pods on this host that an Apply of the input's ConfigMaps and Secrets alone changes. If no pod
// refers to one of the objects, the error is of kind Manifest.
func Referring(n *node.Node, in *manifest.Objects) ([]Known, error) {
	pods, referred, err := referringPods(n, in)
	if err == nil {
		_, err = unreferred(n, in, referred)
	}
	return pods, err
}

// unreferred returns an error of kind Manifest if no pod refers to one of the input's objects. The warnings name the
// CronJobs and workloads that have copies of the others.
func unreferred(n *node.Node, in *manifest.Objects, referred map[string]bool) (warnings problem.List, err error) {
	copies, err := otherCopies(n.Layout(), in)
	if err != nil {
		return nil, err
	}
	var problems problem.List
	for _, name := range slices.Sorted(maps.Keys(namesOf(in))) {
		p := problem.Problem{Object: name, Reason: manifest.ReasonNoPod, Message: "no pod in the input or on this host refers to it", Hint: manifest.HintNoPod}
		if of := copies[name]; len(of) > 0 {
			p.Message = strings.Join(of, ", ") + " keeps the previous data"
			p.Hint = "apply the manifest of " + of[0] + " together with this object"
			p.Warning = referred[name]
		} else if referred[name] {
			continue
		}
		problems = append(problems, p)
	}
	return problems.Warnings(), problem.Refuse(problem.Manifest, problems)
}

// otherCopies returns the CronJobs, and the workloads without pods, that have copies of the input's ConfigMaps and
// Secrets, by the names of these objects. It omits unreadable records, which other commands report.
func otherCopies(layout identity.Layout, in *manifest.Objects) (map[string][]string, error) {
	out, given := map[string][]string{}, namesOf(in)
	add := func(holder string, c manifest.Checkpoint) {
		for _, name := range c.ReferredNames() {
			if given[name] {
				out[name] = append(out[name], holder)
			}
		}
	}
	records, err := store.ReadRecords(layout)
	if err != nil {
		return nil, err
	}
	for _, r := range records.CronJobs {
		if d := r.Dependencies; d != nil && !r.Deleting() {
			add("CronJob "+r.CronJob.Namespace+"/"+r.CronJob.Name, manifest.Checkpoint{ConfigMaps: d.ConfigMaps, Secrets: d.Secrets})
		}
	}
	workloads, _, err := store.ReadWorkloads(layout, "")
	for _, w := range workloads {
		if c, err := w.Checkpoint(); c != nil && err == nil && w.Replicas == 0 && !w.Deleted {
			add(w.Kind+" "+w.ID.Namespace+"/"+w.ID.Name, *c)
		}
	}
	return out, err
}

// namesOf returns the names of the input's ConfigMaps and Secrets, such as ConfigMap shop/web.
func namesOf(in *manifest.Objects) map[string]bool {
	out := map[string]bool{}
	for key := range in.ConfigMaps {
		out["ConfigMap "+key] = true
	}
	for key := range in.Secrets {
		out["Secret "+key] = true
	}
	return out
}

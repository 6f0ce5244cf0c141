package run

import (
	"context"
	"errors"
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

// refreshPods replaces the copies of the input's ConfigMaps and Secrets in the pods that refer to them, and in the
// records of CronJobs and of workloads without pods, if the input has no other objects. As with the kubelet, volumes change without a restart, and environment variables at the next
// start of a container. If none refers to one of the objects, the error is of kind Manifest, and nothing is changed.
func (a *application) refreshPods(ctx context.Context) error {
	if !a.refreshes() {
		return nil
	}
	pods, referred, err := referringPods(a.node, a.Objects)
	if err != nil {
		return err
	}
	refreshes, kept, err := unreferred(a.node, a.Objects, referred)
	if err != nil {
		return err
	}
	a.node.SendWarnings(kept)
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
	for _, r := range refreshes {
		if len(r.changed) == 0 {
			continue
		}
		if err := r.holder.replace(ctx, a.node, r.after); err != nil {
			return errors.Join(report.Err(), err)
		}
		for _, name := range r.changed {
			changed[name] = true
		}
	}
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
		a.report.Entries = append(a.report.Entries, Entry{
			Kind:   kind,
			Result: Result{ID: identity.Pod{Namespace: namespace, Name: object}, Outcome: outcome},
		})
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

// ReferredCopies returns the objects of the pods, CronJobs and workloads on this host that an Apply of the input's
// ConfigMaps and Secrets alone changes, before and after the change. If none refers to one of the objects, the error is
// of kind Manifest.
func ReferredCopies(n *node.Node, in *manifest.Objects) (out [][2]manifest.Checkpoint, err error) {
	pods, referred, err := referringPods(n, in)
	if err != nil {
		return nil, err
	}
	refreshes, _, err := unreferred(n, in, referred)
	if err != nil {
		return nil, err
	}
	for _, k := range pods {
		before, err := lookup.StoredCheckpoint(n, k.ID)
		if err != nil {
			return nil, err
		}
		if before != nil {
			out = append(out, [2]manifest.Checkpoint{*before, manifest.Referred(before.Pod, before.Refreshed(in))})
		}
	}
	for _, r := range refreshes {
		out = append(out, [2]manifest.Checkpoint{r.holder.objects, r.after})
	}
	return out, nil
}

// unreferred returns what changes in CronJobs and workloads without pods. The error is of kind Manifest if no pod and
// none of these refers to one of the input's objects. The warnings name those that keep their copies.
func unreferred(n *node.Node, in *manifest.Objects, referred map[string]bool) (refreshes []refresh, warnings problem.List, err error) {
	holders, err := copyHolders(n.Layout())
	if err != nil {
		return nil, nil, err
	}
	if refreshes, err = refreshesOf(holders, in); err != nil {
		return nil, nil, err
	}
	for _, r := range refreshes {
		for _, name := range r.holder.objects.ReferredNames() {
			referred[name] = referred[name] || namesOf(in)[name]
		}
	}
	var problems problem.List
	for _, name := range slices.Sorted(maps.Keys(namesOf(in))) {
		p := problem.Problem{Object: name, Reason: manifest.ReasonNoPod,
			Message: "no pod in the input or on this host refers to it", Hint: manifest.HintNoPod}
		if i := slices.IndexFunc(holders, func(h copyHolder) bool { return h.fixed != "" && slices.Contains(h.objects.ReferredNames(), name) }); i >= 0 {
			p.Message = holders[i].name + " keeps the previous data, because " + holders[i].fixed
			p.Hint = "apply the manifest of " + holders[i].name + " together with this object"
			p.Warning = referred[name]
		} else if referred[name] {
			continue
		}
		problems = append(problems, p)
	}
	maps.DeleteFunc(referred, func(_ string, is bool) bool { return !is })
	return refreshes, problems.Warnings(), problem.Refuse(problem.Manifest, problems)
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

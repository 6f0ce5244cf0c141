package run

import (
	"context"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/store"
)

// copyHolder is a CronJob, or a workload without pods, whose record contains ConfigMaps and Secrets.
type copyHolder struct {
	name    string // such as CronJob shop/report
	objects manifest.Checkpoint
	// fixed is why podrun does not replace the copies; "" if it does.
	fixed string
	// replace replaces the copies.
	replace func(context.Context, *node.Node, manifest.Checkpoint) error
}

// copyHolders returns the CronJobs and the workloads without pods. It omits unreadable records, which other commands
// report.
func copyHolders(layout identity.Layout) (out []copyHolder, err error) {
	records, err := store.ReadRecords(layout)
	if err != nil {
		return nil, err
	}
	for _, r := range records.CronJobs {
		d := r.Dependencies
		if d == nil || r.Deleting() {
			continue
		}
		out = append(out, copyHolder{
			name:    "CronJob " + r.CronJob.Namespace + "/" + r.CronJob.Name,
			objects: manifest.Checkpoint{ConfigMaps: d.ConfigMaps, Secrets: d.Secrets},
			replace: func(ctx context.Context, n *node.Node, c manifest.Checkpoint) error {
				changed := *d
				changed.ConfigMaps = c.ConfigMaps
				changed.Secrets = c.Secrets
				_, err := ApplyCronJob(ctx, n, r.CronJob.DeepCopy(), &changed)
				return err
			},
		})
	}
	workloads, _, err := store.ReadWorkloads(layout, "")
	for _, w := range workloads {
		c, err := w.Checkpoint()
		if c == nil || err != nil || w.Replicas != 0 || w.Deleted {
			continue
		}
		h := copyHolder{
			name:    w.Kind + " " + w.ID.String(),
			objects: *c,
			replace: func(ctx context.Context, n *node.Node, c manifest.Checkpoint) error {
				return replaceTemplate(ctx, n, w, c)
			},
		}
		switch {
		case w.Origin != "":
			h.fixed = "podrun serve reads it from a file"
		case c.SecretsLost:
			h.fixed = "its Secrets were only in memory"
		}
		out = append(out, h)
	}
	return out, err
}

// replaceTemplate replaces the definition in the record of a workload, unless another command has changed the record.
func replaceTemplate(ctx context.Context, n *node.Node, w store.WorkloadRecord, c manifest.Checkpoint) error {
	lock, err := lockWorkloads(ctx, n)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	is, err := store.ReadWorkload(n.Layout(), w.ID)
	if err != nil {
		return err
	}
	if is == nil || is.Change != w.Change {
		return &problem.Error{Kind: problem.Failed, Object: w.Kind + " " + w.ID.String(),
			Err: errors.New("another command has changed it"), Hint: "run the command again"}
	}
	if err := is.SetTemplate(c); err != nil {
		return err
	}
	is.Change = store.RandomHex(8)
	return store.WriteWorkload(n.Layout(), *is)
}

// refreshed returns the objects of a holder with those of the input, and the names of the changed ones. The error is of
// kind Manifest if one of them is immutable.
func (h copyHolder) refreshed(in *manifest.Objects) (after manifest.Checkpoint, changed []string, err error) {
	after = h.objects
	after.ConfigMaps, after.Secrets = replaced(after.ConfigMaps, in.ConfigMaps), replaced(after.Secrets, in.Secrets)
	changed, _, frozen := h.objects.Diff(after)
	if len(frozen) > 0 {
		err = &problem.Error{Kind: problem.Manifest, Object: h.name,
			Err:  errors.New(strings.Join(frozen, ", ") + ": data is immutable when `immutable` is set"),
			Hint: "use another name for the changed object"}
	}
	return after, changed, err
}

func replaced[T interface {
	*corev1.ConfigMap | *corev1.Secret
	GetNamespace() string
	GetName() string
}](copies []T, by map[string]T) (out []T) {
	for _, c := range copies {
		if is, ok := by[c.GetNamespace()+"/"+c.GetName()]; ok {
			c = is
		}
		out = append(out, c)
	}
	return out
}

// refresh is what an Apply of ConfigMaps and Secrets alone changes in one holder.
type refresh struct {
	holder  copyHolder
	after   manifest.Checkpoint
	changed []string // the names of the changed objects
}

// refreshesOf returns what an Apply of the input's ConfigMaps and Secrets alone changes in the records of CronJobs and
// of workloads without pods: their next pods get the new data.
func refreshesOf(holders []copyHolder, in *manifest.Objects) (out []refresh, err error) {
	for _, h := range holders {
		if h.fixed != "" {
			continue
		}
		after, changed, err := h.refreshed(in)
		if err != nil {
			return nil, err
		}
		out = append(out, refresh{h, after, changed})
	}
	return out, nil
}

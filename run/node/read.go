package node

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cgroup"
	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/statefile"
	"github.com/podrun/podrun/internal/trace"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/service"
)

// PrepareOptions are the options of Prepare.
type PrepareOptions struct {
	AllowKubelet bool
	Force        bool // plan the replacement of pods even if they are unchanged or have ended
	// RestartedAt makes Prepare plan the replacement of pods whose annotation
	// identity.AnnotationRestartedAt changes.
	RestartedAt bool
	// KeepEnded makes Prepare plan in-place updates of ended pods, instead of replacements, where the
	// API allows it.
	KeepEnded bool
	// ReplaceCorrupt makes Prepare plan the replacement of pods whose checkpoints are corrupt.
	ReplaceCorrupt bool
	// KeepUID makes Prepare plan the replacement of a pod with the UID of the replaced one.
	KeepUID bool
	// KeepReferred makes Prepare use the ConfigMaps and Secrets of the pods on this host if the
	// input does not contain them.
	KeepReferred bool
	Facts        *host.Facts // replaces the facts of this host
	// Debug is a container that is added to the pods' ephemeral containers; nil if there is none. The pods'
	// origins do not change.
	Debug *corev1.EphemeralContainer
	Now   time.Time // the creation timestamp of new pods; if it is zero, they have none
}

// Prepare reads this host and plans the pods. The list and the target's Problems contain the reasons to
// refuse a pod. The errors are those of Read.
func (n *Node) Prepare(ctx context.Context, objects *manifest.Objects, o PrepareOptions) ([]prepare.Target, problem.List, error) {
	seen, err := n.Read(ctx, prepare.NewWanted(objects, n.Settings, o.AllowKubelet), o.Facts)
	if err != nil {
		return nil, nil, err
	}
	targets, problems := n.plan(ctx, seen, objects, o)
	return targets, problems, nil
}

// Read reads the state of this host that podrun needs for planning: the facts, the paths that volumes
// use, and the pods. If replay is not nil, it returns these facts without reading anything. The error
// is of kind Runtime, or states that podrun must not read a checkpoint or that a newer podrun wrote
// it.
func (n *Node) Read(ctx context.Context, wanted prepare.Wanted, replay *host.Facts) (seen prepare.HostState, err error) {
	if replay != nil {
		return prepare.HostState{Facts: *replay}, nil
	}
	if err := n.CheckImagePolicy(); err != nil {
		return seen, err
	}
	go initEncoders()
	defer trace.Begin(ctx, "read the host's facts", "")()
	if ahead := n.ahead.Swap(nil); ahead.Fresh() {
		wanted.Facts.Ahead = ahead
	}
	facts, err := discover.Read(ctx, n.Client, n.Settings, wanted.Facts)
	if err != nil {
		return seen, err
	}
	if layout := embedded.ReadLayout(n.Settings.RootDir); n.Client.Endpoint() == layout.Endpoint() {
		if facts.PodSubnets, err = embedded.ReadSubnets(ctx, layout); err != nil {
			return seen, &problem.Error{Kind: problem.Runtime, Object: "embedded runtime", Op: "read the pod subnets", Err: err}
		}
		facts.Runtime.NewHandlers = readNewHandlers(ctx, layout)
		if len(wanted.Facts.Ports) > 0 {
			if facts.NodePorts, err = readNodePorts(n.Layout()); err != nil {
				return seen, &problem.Error{Kind: problem.Runtime, Object: "services", Err: err}
			}
		}
	}
	seen, err = n.AddPods(ctx, wanted, facts)
	seen.Supervised = store.Supervised(n.Layout())
	return seen, err
}

// readNodePorts reads the node ports of this root directory's Services. It uses what it can decode of
// records that podrun cannot use.
func readNodePorts(l identity.Layout) (out []host.NodePort, err error) {
	records, faults, err := store.ReadServices(l)
	for _, f := range faults {
		if f.Partial.Service != nil {
			records = append(records, f.Partial)
		}
	}
	for _, r := range records {
		for _, p := range service.NodePorts(r.Service) {
			out = append(out, host.NodePort{Service: service.Key(r.Service), Protocol: p.Protocol, Port: p.Port})
		}
	}
	return out, err
}

// readNewHandlers reads host.Runtime.NewHandlers. An error is ignored, because the value is used only in
// a hint, which otherwise lists the existing handlers.
func readNewHandlers(ctx context.Context, l embedded.Layout) map[string]string {
	found, err := embedded.ReadNewHandlers(ctx, l)
	if err != nil || len(found) == 0 {
		return nil
	}
	out := map[string]string{}
	for _, h := range found {
		out[h.Name] = h.Path()
	}
	return out
}

// AddPods returns the facts with two additions: the wanted pods, and the pods of other root directories
// that have cgroups on this host. The errors are those of ReadExisting.
func (n *Node) AddPods(ctx context.Context, wanted prepare.Wanted, facts host.Facts) (prepare.HostState, error) {
	ours := make(map[string]bool, len(facts.Pods))
	for _, p := range facts.Pods {
		ours[p.UID] = ours[p.UID] || p.Managed
	}
	holders := cgroup.ReadHolders(facts.Cgroup, n.Settings, func(uid string) bool { return ours[uid] })
	here, err := n.ReadExisting(ctx, wanted, facts)
	return prepare.HostState{Facts: facts, Existing: here, Holders: holders}, err
}

// plan returns the plans of the pods, and whether this host admits them. It depends only on its inputs.
func (n *Node) plan(ctx context.Context, seen prepare.HostState, objects *manifest.Objects, o PrepareOptions) ([]prepare.Target, problem.List) {
	defer trace.Begin(ctx, "plan and admit", "")()
	return prepare.All(prepare.Input{
		HostState:      seen,
		Objects:        objects,
		Settings:       n.Settings,
		Invocation:     n.Invocation,
		AllowKubelet:   o.AllowKubelet,
		Force:          o.Force,
		RestartedAt:    o.RestartedAt,
		Now:            o.Now,
		Debug:          o.Debug,
		KeepEnded:      o.KeepEnded,
		ReplaceCorrupt: o.ReplaceCorrupt,
		KeepReferred:   o.KeepReferred,
		KeepUID:        o.KeepUID,
	})
}

// ReadExisting reads the checkpoints, owners and observations of the wanted pods on this host. The error is of
// kind Runtime, or states that podrun must not read a checkpoint or that a newer podrun wrote it.
// ExistingPod.Broken is set if the checkpoint is corrupt.
func (n *Node) ReadExisting(ctx context.Context, wanted prepare.Wanted, facts host.Facts) ([]prepare.ExistingPod, error) {
	var out []prepare.ExistingPod
	for _, p := range facts.Pods {
		id := identity.Pod{Namespace: p.Namespace, Name: p.Name, UID: p.UID}
		if !p.Managed || !wanted.Pods[id.String()] || !identity.SafeUID(p.UID) {
			continue
		}
		c, err := store.ReadCheckpoint(n.Layout(), id.UID)
		switch {
		case errors.Is(err, fs.ErrPermission) || store.IsNewer(err) || statefile.LacksResources(err):
			return nil, err
		case err != nil:
			out = append(out, prepare.ExistingPod{ID: id, Broken: err, Corrupt: store.IsCorrupt(err)})
			continue
		case c == nil:
			continue
		}
		owner, err := store.ReadOwner(n.Layout(), id)
		if err != nil {
			return nil, err
		}
		out = append(out, prepare.ExistingPod{
			ID:        id,
			Pod:       c.Pod,
			Made:      *c,
			Ending:    owner != nil && owner.Doomed && owner.UID == id.UID,
			Recreates: owner != nil && owner.Recreate && owner.UID == id.UID,
		})
	}
	return out, n.observeExisting(ctx, out)
}

// observeExisting reads the runtime's state of the pods that have a readable checkpoint, and determines
// whether these pods have ended.
func (n *Node) observeExisting(ctx context.Context, pods []prepare.ExistingPod) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i := range pods {
		h := &pods[i]
		if h.Pod == nil {
			continue
		}
		group.Go(func() (err error) {
			if h.Observed, err = n.Observe(ctx, h.ID.UID); err != nil {
				return &problem.Error{Kind: problem.Runtime, Object: "pod " + h.ID.String(), Err: err}
			}
			h.Ended = HasEnded(h.Pod, h.Observed)
			mark := store.ReadStopMark(n.Layout(), h.ID.UID)
			h.Interrupted = mark != nil && mark.Interrupted
			return nil
		})
	}
	return group.Wait()
}

// HasEnded reports whether all containers of a pod have ended and none will run again.
func HasEnded(pod *corev1.Pod, obs *lifecycle.Observed) bool {
	started, _ := obs.Probed()
	d := lifecycle.Next(pod, lifecycle.World{Observed: obs, Started: started, Now: time.Now(), Since: lifecycle.StartTime(pod, obs)})
	return d.Ended && obs.Sandbox() != nil
}

// ReadFacts reads the facts of this host that podrun needs to plan the objects. The error is of kind
// Runtime.
func (n *Node) ReadFacts(ctx context.Context, objects *manifest.Objects, allowKubelet bool) (host.Facts, error) {
	return discover.Read(ctx, n.Client, n.Settings, prepare.NewWanted(objects, n.Settings, allowKubelet).Facts)
}

// HostFacts returns this host's facts for a pod that was already admitted. It calls n.Facts or, if
// that is nil, reads them. The error is of kind Runtime.
func (n *Node) HostFacts(ctx context.Context) (host.Facts, error) {
	if n.Facts != nil {
		return n.Facts(ctx)
	}
	return discover.Read(ctx, n.Client, n.Settings, discover.Options{})
}

package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/admission"
	"github.com/podrun/podrun/cgroup"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/trace"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/volume"
)

// PrepareOptions are the options of Prepare.
type PrepareOptions struct {
	AllowKubelet bool
	Force        bool // plan to run pods again that have not changed or have ended
	// ReplaceCorrupt replaces pods whose checkpoints are corrupt.
	ReplaceCorrupt bool
	Facts          *host.Facts // in place of this host's
	// Debug is added to the ephemeral containers of the pods, whose origin stays as it
	// is; nil for none.
	Debug *corev1.EphemeralContainer
	Now   time.Time // the creation timestamp of new pods; zero leaves it unset
}

// Prepare reads the host, unless o.Facts replaces that, and plans the pods.
// Refusals are problems, of the targets and of the list; the error is of kind
// Runtime, or of a checkpoint that may not be read or that a newer podrun wrote.
func (n *Node) Prepare(ctx context.Context, objects *manifest.Objects, o PrepareOptions) ([]prepare.Target, problem.List, error) {
	return n.prepare(ctx, objects, o, func(host.PodDirs) error { return nil })
}

// prepare is Prepare that calls read once the host is read, before anything is concluded
// from it.
func (n *Node) prepare(ctx context.Context, objects *manifest.Objects, o PrepareOptions, read func(host.PodDirs) error) ([]prepare.Target, problem.List, error) {
	in := prepare.Input{Objects: objects, Settings: n.Settings, Invocation: n.Invocation, AllowKubelet: o.AllowKubelet, Force: o.Force, Now: o.Now, Debug: o.Debug, ReplaceCorrupt: o.ReplaceCorrupt,
		Supervised: o.Facts == nil && store.Supervised(n.Layout())}
	facts := o.Facts
	if facts == nil {
		go initEncoders()
		end := trace.Begin(ctx, "read this host's facts", "")
		wanted := WantedFacts(objects, o.AllowKubelet)
		if ahead := n.ahead.Swap(nil); ahead.Fresh() {
			wanted.Ahead = ahead
		}
		found, err := discover.Read(ctx, n.Client, n.Settings, wanted)
		end()
		if err == nil {
			err = read(found.PodDirs)
		}
		if err != nil {
			return nil, nil, err
		}
		if in.Here, err = n.Here(ctx, objects, found); err != nil {
			return nil, nil, err
		}
		facts = &found
	}
	in.Facts = *facts
	end := trace.Begin(ctx, "plan and admit", "")
	targets, problems := prepare.All(in)
	end()
	if o.Facts == nil {
		var err error
		if problems, err = HostProblems(ctx, targets, objects, problems); err != nil {
			return nil, nil, err
		}
	}
	return targets, problems, nil
}

// WantedFacts selects the facts that only some pods need and that take long to
// read. With allowKubelet, no kubelet is searched for.
func WantedFacts(objects *manifest.Objects, allowKubelet bool) discover.Options {
	o := discover.Options{Ports: prepare.HostPorts(objects), Images: prepare.ImagesOf(objects), Kubelet: !allowKubelet}
	for _, p := range objects.Pods {
		o.SeccompProfiles = append(o.SeccompProfiles, admission.SeccompProfiles(p.Object)...)
	}
	o.HostPaths = prepare.HostPaths(objects)
	return o
}

// Here reads the checkpoints, owners and observations of the pods on this host
// that have the names of the objects' pods. The error is of kind Runtime, or of a
// checkpoint that may not be read or that a newer podrun wrote; a corrupt one is
// in Here.Broken.
func (n *Node) Here(ctx context.Context, objects *manifest.Objects, facts host.Facts) ([]prepare.Here, error) {
	wanted := map[string]bool{}
	for _, p := range objects.Pods {
		wanted[p.Object.Namespace+"/"+p.Object.Name] = true
	}
	var out []prepare.Here
	for _, p := range facts.Pods {
		id := identity.Pod{Namespace: p.Namespace, Name: p.Name, UID: p.UID}
		if !p.Managed || !wanted[id.String()] || !identity.SafeUID(p.UID) {
			continue
		}
		c, err := store.ReadCheckpoint(n.Layout(), id.UID)
		switch {
		case errors.Is(err, fs.ErrPermission) || store.IsNewer(err):
			return nil, err
		case err != nil:
			out = append(out, prepare.Here{ID: id, Broken: err, Corrupt: store.IsCorrupt(err)})
			continue
		case c == nil:
			continue
		}
		owner, err := store.ReadOwner(n.Layout(), id)
		if err != nil {
			return nil, err
		}
		out = append(out, prepare.Here{ID: id, Pod: c.Pod, Made: *c, Ending: owner != nil && owner.Doomed && owner.UID == id.UID})
	}
	return out, n.observeHere(ctx, out)
}

// observeHere reads the runtime's state of pods whose checkpoints are readable, and
// whether they have ended.
func (n *Node) observeHere(ctx context.Context, pods []prepare.Here) error {
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
			started, _ := h.Observed.Probed()
			d := lifecycle.Next(h.Pod, lifecycle.World{Observed: h.Observed, Started: started, Now: time.Now(), Since: lifecycle.TakenOn(h.Pod, h.Observed)})
			h.Ended = d.Ended && h.Observed.Sandbox() != nil
			return nil
		})
	}
	return group.Wait()
}

// ReadFacts reads the facts of this host that planning these objects needs. The
// error is of kind Runtime.
func (n *Node) ReadFacts(ctx context.Context, objects *manifest.Objects, allowKubelet bool) (host.Facts, error) {
	return discover.Read(ctx, n.Client, n.Settings, WantedFacts(objects, allowKubelet))
}

// HostProblems checks the requirements of the pods' volumes on this host, and that their
// cgroups are not those of pods of other root directories. It adds the problems to the
// targets, and returns problems with them appended. The error is the cause that ended ctx,
// or of kind Runtime.
func HostProblems(ctx context.Context, targets []prepare.Target, objects *manifest.Objects, problems problem.List) (problem.List, error) {
	for i := range targets {
		t, mp := &targets[i], objects.Pods[i]
		if len(t.Problems.Errors()) > 0 {
			continue // of a plan that is not whole
		}
		found, err := volume.ReadProblems(ctx, t.Plan.Pod, t.Plan.Volumes)
		if err != nil {
			return problems, err
		}
		held, err := groupProblem(t.Plan, mp.Object.UID == "")
		if err != nil {
			return problems, err
		}
		for _, p := range append(found, held...) {
			p = mp.Locate(p)
			t.Problems, problems = append(t.Problems, p), append(problems, p)
		}
	}
	return problems, nil
}

// groupProblem refuses a new pod whose cgroup another pod of the same UID has. That one has
// another root directory and may have another runtime, so that no list of pods contains it:
// both would be in one cgroup, and deleting one would kill the other. Generated is true if
// the manifest has no UID.
func groupProblem(p *prepare.Plan, generated bool) (problem.List, error) {
	uid := p.ID.UID
	for _, h := range p.Facts.Pods {
		if h.Managed && h.UID == uid {
			return nil, nil
		}
	}
	dir, held, err := cgroup.ReadHolder(p.Cgroup)
	if err != nil || !held {
		return nil, err
	}
	of, remove := "of the root directory "+dir, "delete that pod with --root-dir "+dir
	if dir == "" {
		of, remove = "of an older podrun with another root directory", "delete that pod with its --root-dir"
	}
	hint := "remove metadata.uid from the manifest: podrun generates one; or " + remove
	if generated {
		hint = remove + ", or set another UID in metadata.uid"
	}
	return problem.List{{Object: "Pod " + p.ID.String(), Field: "metadata.uid", Reason: "AlreadyExists",
		Message: fmt.Sprintf("the cgroup of UID %q is that of a pod %s", uid, of), Hint: hint}}, nil
}

// HostFacts returns this host's facts, for a pod that was admitted before: those
// of n.Facts, or read now where that is nil. The error is of kind Runtime.
func (n *Node) HostFacts(ctx context.Context) (host.Facts, error) {
	if n.Facts != nil {
		return n.Facts(ctx)
	}
	return discover.Read(ctx, n.Client, n.Settings, discover.Options{})
}

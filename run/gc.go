package run

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podrun/podrun/cgroup"
	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/ownruntime"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/stop"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/sandbox/cni"
)

// GCOptions are the options of GC.
type GCOptions struct {
	DryRun      bool // remove nothing
	AllRootDirs bool // include leftovers of other root directories
	Timeout     time.Duration
}

// Leftover is an object that a killed podrun process left on this host.
type Leftover struct {
	Kind    string `json:"kind"` // pod, container, record, cgroup, network, link or logs
	Name    string `json:"name"` // a path, an ID, or the namespace/name of a pod
	Why     string `json:"why"`  // why it is a leftover, or why podrun keeps it
	Removed bool   `json:"removed"`
	// Kept is true if podrun does not remove the object. Why explains why.
	Kept   bool   `json:"kept,omitempty"`
	Error  string `json:"error,omitempty"` // why it could not be removed
	remove func(context.Context) error
}

// gcAge is the minimum age of a leftover: another podrun process could still be creating a
// younger object.
const gcAge = time.Minute

// GC finds and removes leftovers of killed podrun processes on this host. It removes only objects
// that podrun has marked as its own. The result also contains objects that look like leftovers but
// are kept, with the reason. The error joins those of the objects that could not be removed, and of the host, of
// kind Runtime or Deadline, if it could not be read. In that case, the result has the leftovers of the root directories
// that were read before.
func GC(ctx context.Context, n *node.Node, o GCOptions) ([]Leftover, error) {
	ctx, cancel := wait.WithTimeout(ctx, o.Timeout)
	defer cancel()
	dirs := []string{n.Layout().RootDir}
	sandboxes, err := observe.ReadSandboxes(ctx, n.Client, n.Layout(), nil)
	if err != nil {
		return nil, reconcile.ReadHostError(ctx, &problem.Error{Kind: problem.Runtime, Object: "runtime", Err: err})
	}
	var out []Leftover
	for _, sb := range sandboxes {
		switch {
		case sb.RootDir == "" || slices.Contains(dirs, sb.RootDir):
		case o.AllRootDirs && isDir(sb.RootDir):
			dirs = append(dirs, sb.RootDir)
		default:
			out = append(out, Leftover{Kind: "pod", Name: sb.Pod.String(), Kept: true, Why: "it belongs to the root directory " + sb.RootDir})
		}
	}
	var errs []error
	for _, dir := range dirs {
		of := &node.Node{}
		of.Client = n.Client
		of.Settings = n.Settings
		of.Emit = n.Emit
		of.Warn = n.Warn
		of.Command = n.Command
		of.Invocation = n.Invocation
		of.Settings.RootDir = dir
		found, err := leftovers(ctx, of, dir == dirs[0])
		if err != nil {
			return out, errors.Join(append(errs, reconcile.ReadHostError(ctx, err))...)
		}
		for i := range found {
			errs = append(errs, found[i].collect(ctx, o.DryRun))
		}
		out = append(out, found...)
		if !o.DryRun {
			errs = append(errs, of.RemoveUnderNodeLock(ctx, func() error { return store.Sweep(of.Layout()) }), store.SweepTemporaries(of.Layout()))
		}
	}
	return out, errors.Join(errs...)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// collect removes a leftover.
func (l *Leftover) collect(ctx context.Context, dry bool) error {
	if dry || l.Kept {
		return nil
	}
	err := l.remove(ctx)
	if errors.Is(err, errNotLeft) {
		l.Kept = true
		l.Why = errNotLeft.Error()
		return nil
	}
	if l.Removed = err == nil; err != nil {
		l.Error = err.Error()
		return &problem.Error{Kind: problem.Runtime, Object: l.Kind + " " + l.Name, Op: "remove leftovers", Err: err}
	}
	return nil
}

// leftovers finds the leftovers of one root directory. If shared is true, it also finds those
// that belong to no root directory.
func leftovers(ctx context.Context, n *node.Node, shared bool) ([]Leftover, error) {
	facts, err := discover.ReadBasics(ctx, n.Client, n.Settings)
	if err != nil {
		return nil, err
	}
	pods, err := lookup.Find(ctx, n, lookup.Selector{})
	if err != nil {
		return nil, err
	}
	sandboxes, err := observe.ReadSandboxes(ctx, n.Client, n.Layout(), nil)
	if err != nil {
		return nil, err
	}
	uids, ids := map[string]bool{}, map[string]bool{}
	for _, k := range pods {
		uids[k.ID.UID] = true
	}
	for _, sb := range sandboxes {
		uids[sb.Pod.UID], ids[sb.ID] = true, true
	}
	out := leftPods(n, pods, facts)
	networks, err := leftNetworks(ctx, n, ids)
	if err != nil {
		return nil, err
	}
	out = append(out, networks...)
	if networks, err = leftAddresses(ctx, n, ids, networks); err != nil {
		return nil, err
	}
	out = append(out, networks...)
	out = append(out, leftLinks(n)...)
	if shared {
		containers, err := leftContainers(ctx, n, ids)
		if err != nil {
			return nil, err
		}
		records, err := leftRecords(ctx, n)
		if err != nil {
			return nil, err
		}
		out = slices.Concat(out, containers, records, leftLogs(n, uids))
	}
	// Also with --dry-run: this only sets extended attributes of leftover cgroups.
	cgroup.MarkRecreated(ctx, facts.Cgroup, n.Settings)
	return append(out, leftGroups(n, facts, uids, shared)...), nil
}

// errNotLeft is the error of the removal of a leftover that is no longer one.
var errNotLeft = errors.New("another podrun command has used it since")

// leftPods finds pods whose removal was interrupted, pods whose directory is gone, and pods that a
// killed command did not remove.
func leftPods(n *node.Node, pods []Known, facts host.Facts) []Leftover {
	var out []Leftover
	for _, k := range pods {
		owner, err := store.ReadOwner(n.Layout(), k.ID)
		if err != nil || owner.Live(n.Layout()) {
			continue
		}
		l := Leftover{Kind: "pod", Name: k.ID.String(), remove: func(ctx context.Context) error { return removeLeft(ctx, n, k, facts, owner) }}
		switch {
		case owner.Removes() && owner.UID == k.ID.UID:
			l.Why = "its removal was interrupted"
		case !store.HasCheckpoint(n.Layout(), k.ID.UID):
			l.Why = "it has a sandbox but no checkpoint"
		case abandoned(n, owner, k.ID):
			l.Why = "the podrun run that created it was killed"
		default:
			continue
		}
		out = append(out, l)
	}
	return out
}

// removeLeft removes a pod that was found as a leftover. The removal of other pods can take minutes,
// because it waits for their grace periods. If another command has acquired the pod since it was found,
// removeLeft keeps the pod and returns errNotLeft.
func removeLeft(ctx context.Context, n *node.Node, k Known, facts host.Facts, found *store.OwnerRecord) error {
	lock, err := n.Locks().LockPod(ctx, k.ID, store.PurposeRemove)
	defer lock.Release()
	if err != nil {
		return err
	}
	now, err := lock.Owner()
	if err != nil {
		return err
	}
	if now != nil && (found == nil || now.Generation != found.Generation) {
		return errNotLeft
	}
	return removeLocked(ctx, n, k, facts, lock, stop.RemoveOptions{}).Err
}

// abandoned reports whether the last owner of a pod ended before it removed the pod, and no running command
// needs the pod. It must be called only if this owner is not live. A pod that another command has since stopped
// or started is not abandoned.
func abandoned(n *node.Node, owner *store.OwnerRecord, id identity.Pod) bool {
	if owner == nil || owner.UID != id.UID || owner.Origin == nil || !owner.Origin.RemovedAtEnd || owner.Purpose != store.PurposeRun {
		return false
	}
	kept, err := store.KeptByOthers(n.Layout(), id, nil, owner.Incarnation)
	return err == nil && !kept
}

// leftNetworks finds the network attachments of those sandboxes of podrun that the runtime no
// longer has.
func leftNetworks(ctx context.Context, n *node.Node, sandboxes map[string]bool) ([]Leftover, error) {
	all, err := cni.ReadAttachments(ctx)
	if err != nil {
		return nil, err
	}
	var out []Leftover
	for _, a := range all {
		if !a.Managed || a.RootDir != n.Layout().RootDir || sandboxes[a.Sandbox] || !older(a.File) {
			continue
		}
		out = append(out, Leftover{Kind: "network", Name: a.Sandbox, Why: "the runtime has no sandbox with this ID (pod " + a.Pod.String() + ")",
			remove: func(ctx context.Context) error { return cni.Remove(ctx, a.RootDir, []cni.Attachment{a}, nil) }})
	}
	return out, nil
}

// leftAddresses finds sandboxes that have an address or firewall rules in the embedded runtime's
// network, but that the runtime does not have. It skips the sandboxes in found.
func leftAddresses(ctx context.Context, n *node.Node, sandboxes map[string]bool, found []Leftover) ([]Leftover, error) {
	layout := embedded.ReadLayout(n.Settings.RootDir)
	network, ok := ownruntime.Network(ctx, layout)
	if !ok || n.Client.Endpoint() != layout.Endpoint() {
		return nil, nil
	}
	valid, err := ownruntime.SandboxIDs(ctx, n.Client) // sandboxes does not contain the sandboxes of other programs
	if err != nil {
		return nil, err
	}
	unused, err := network.Unused(ctx, valid)
	if err != nil {
		return nil, &problem.Error{Kind: problem.Runtime, Object: "network " + layout.Bridge(), Op: "find leftovers", Err: err}
	}
	// one call removes all unused addresses and rules
	var once sync.Once
	var failed error
	collect := func(ctx context.Context) error {
		once.Do(func() { failed = network.Collect(ctx, valid) })
		return failed
	}
	var out []Leftover
	for _, id := range unused {
		if sandboxes[id] || slices.ContainsFunc(found, func(l Leftover) bool { return l.Name == id }) {
			continue
		}
		out = append(out, Leftover{
			Kind:   "network",
			Name:   id,
			Why:    "it has an address or firewall rules, but the runtime has no sandbox with this ID",
			remove: collect,
		})
	}
	return out, nil
}

// older reports whether a file is older than gcAge.
func older(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && time.Since(info.ModTime()) > gcAge
}

// leftContainers finds podrun's containers whose sandbox no longer exists.
func leftContainers(ctx context.Context, n *node.Node, sandboxes map[string]bool) ([]Leftover, error) {
	all, err := n.Client.ListContainers(ctx, nil)
	if err != nil {
		return nil, &problem.Error{Kind: problem.Runtime, Object: "runtime", Op: "list containers", Err: err}
	}
	var out []Leftover
	for _, c := range all {
		if c.GetAnnotations()[identity.AnnotationGeneration] == "" || sandboxes[c.GetPodSandboxId()] || time.Since(time.Unix(0, c.GetCreatedAt())) < gcAge {
			continue
		}
		out = append(out, Leftover{Kind: "container", Name: c.GetId(), Why: "its sandbox no longer exists",
			remove: func(ctx context.Context) error { return n.Client.RemoveContainer(ctx, c.GetId()) }})
	}
	return out, nil
}

// leftRecords finds records in containerd that a podrun process restored temporarily. The
// process needed them to remove containers whose records were missing, and was killed before it
// removed the records again.
func leftRecords(ctx context.Context, n *node.Node) ([]Leftover, error) {
	ids, err := n.Client.Containerd.Restored(ctx, gcAge)
	if err != nil {
		return nil, &problem.Error{Kind: problem.Runtime, Object: "runtime", Op: "list container records", Err: err}
	}
	var out []Leftover
	for _, id := range ids {
		out = append(out, Leftover{Kind: "record", Name: id, Why: "podrun restored this record in containerd to remove a container",
			remove: func(ctx context.Context) error { return n.Client.Containerd.RemoveRestored(ctx, id) }})
	}
	return out, nil
}

// leftGroups finds the cgroups of this root directory whose pods no longer exist. If shared is
// true, leftGroups also finds cgroups that record no root directory, or a root directory that no
// longer exists. It skips cgroups of another existing root directory: the podrun processes that use
// that directory remove these.
func leftGroups(n *node.Node, facts host.Facts, pods map[string]bool, shared bool) []Leftover {
	var out []Leftover
	for _, g := range cgroup.ReadPodGroups(facts.Cgroup, n.Settings) {
		ours := g.RootDir == n.Layout().RootDir
		if pods[g.UID] || time.Since(g.Made) < gcAge || !ours && !shared {
			continue
		}
		l := Leftover{Kind: "cgroup", Name: "pod" + g.UID, Why: "its pod no longer exists", Kept: g.InUse}
		settings := n.Settings
		if !ours && g.RootDir != "" {
			if isDir(g.RootDir) {
				continue
			}
			settings.RootDir = g.RootDir
			l.Why = "its root directory " + g.RootDir + " no longer exists"
		}
		if g.InUse {
			l.Why += "; terminate the processes in it first"
		}
		plan := cgroup.Leftovers(g.UID, facts.Cgroup, settings)
		l.remove = func(ctx context.Context) error {
			return n.RemoveUnderNodeLock(ctx, func() error { return cgroup.RemoveUnused(ctx, plan) })
		}
		out = append(out, l)
	}
	return out
}

// leftLinks finds links to logs that no longer exist.
func leftLinks(n *node.Node) []Leftover {
	// After an error, podrun uses the links that were read.
	links, _ := hostfile.Entries(n.Layout().ContainerLogsDir, "", ".log")
	var out []Leftover
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(target, n.Layout().PodLogsDir+"/") || !older(link) {
			continue
		}
		if _, err := os.Stat(target); !os.IsNotExist(err) {
			continue
		}
		out = append(out, Leftover{Kind: "link", Name: link, Why: "its target log no longer exists",
			remove: func(context.Context) error { return os.Remove(link) }})
	}
	return out
}

// leftLogs finds the logs of pods that no longer exist. Nothing identifies a log as podrun's:
// `delete --keep-logs` leaves such logs behind, but they may also belong to a kubelet.
func leftLogs(n *node.Node, pods map[string]bool) []Leftover {
	entries, err := os.ReadDir(n.Layout().PodLogsDir)
	if err != nil {
		return nil // there are no logs
	}
	var out []Leftover
	for _, entry := range entries {
		uid := entry.Name()[strings.LastIndexByte(entry.Name(), '_')+1:]
		if !pods[uid] {
			out = append(out, Leftover{Kind: "logs", Name: filepath.Join(n.Layout().PodLogsDir, entry.Name()), Kept: true,
				Why: "another program or 'podrun delete --keep-logs' may have left them: remove them manually"})
		}
	}
	return out
}

// listLeftovers lists the objects that GC would remove, for a report. It returns nil if blind is set, or if the
// host cannot be read: another part of the report then contains the error.
func listLeftovers(ctx context.Context, n *node.Node, blind bool) []string {
	if blind {
		return nil
	}
	found, err := GC(ctx, n, GCOptions{DryRun: true})
	if err != nil {
		return nil
	}
	var out []string
	for _, l := range found {
		if !l.Kept {
			out = append(out, l.Kind+"/"+l.Name)
		}
	}
	return out
}

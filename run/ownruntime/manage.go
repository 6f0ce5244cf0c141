package ownruntime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/store"
)

// RuntimeStatus describes which runtime a root directory uses, and the runtime's state. It
// marshals to stable JSON.
type Status struct {
	Kind     string `json:"kind"`           // embedded or external
	Recorded bool   `json:"recorded"`       // false if the choice is not recorded, and the next command would choose this runtime
	Endpoint string `json:"endpoint"`       // unix:///…
	State    string `json:"state"`          // running, starting, failed or stopped; for an external runtime: answers, no CRI, silent or absent
	PID      int    `json:"pid,omitempty"`  // the process ID of the embedded daemon
	Unit     string `json:"unit,omitempty"` // name of the embedded daemon's systemd unit
	// digest of the archive of the daemon that is running or that ran last
	Digest  string `json:"digest,omitempty"`
	Archive string `json:"archive,omitempty"` // the digest of the archive in this binary
	Dir     string `json:"dir,omitempty"`     // directory of the embedded runtime
	Log     string `json:"log,omitempty"`
	// Problem explains why containerd cannot be used: its last start failed, or it does not answer yet.
	Problem  string       `json:"problem,omitempty"`
	Replaced *Replacement `json:"replaced,omitempty"` // the last damaged store that podrun replaced
	// Rootless is the podrun-rootless of an ordinary user; nil for root, and if it does not run
	Rootless *RootlessStatus `json:"rootless,omitempty"`
}

// Upgradable reports whether `podrun runtime upgrade` would change anything.
func (s Status) Upgradable() bool {
	return s.Kind == string(embedded.Own) && s.Archive != "" && s.Digest != "" && s.Digest != s.Archive
}

// Status examines the runtime. It changes nothing.
func (r *Runtime) Status(ctx context.Context) (Status, error) {
	record, d, err := r.choose(ctx, Looks)
	if err != nil {
		return Status{}, err
	}
	s := Status{Kind: string(d.Kind), Endpoint: d.Endpoint, Recorded: record != nil && record.Kind == d.Kind && record.Endpoint == d.Endpoint}
	if r.archive != nil {
		s.Archive = r.archive.Digest
	}
	if d.Kind == embedded.External {
		if s.State = string(embedded.ReadSocket(ctx, d.Endpoint, embedded.AnswerWithin)); s.State == "" {
			s.State = "absent"
		}
		return s, nil
	}
	s.Endpoint = r.layout.Endpoint()
	s.Dir = r.layout.Dir()
	s.Log = r.layout.Log()
	s.State = "stopped"
	if record != nil {
		s.Digest = record.Digest
	}
	if last := embedded.ReadDaemon(ctx, r.layout); last.Alive() {
		s.PID = last.PID
		s.Unit = last.Unit
		s.Digest = last.Digest
		s.State = "running"
		if !last.Usable(ctx, r.layout) {
			s.State = "starting"
		}
	}
	if s.Problem = (ownStore{r}).failure(ctx); s.Problem != "" && s.PID == 0 {
		s.State = "failed"
	} else if s.State == "starting" {
		s.Problem = startingText(s.PID)
	}
	s.Replaced = ownStore{r}.replacement(ctx)
	s.Rootless = rootlessStatus(r)
	return s, nil
}

// EmbeddedState describes the state of the embedded runtime for a report. It is empty if another
// runtime is used, or none is found.
type State struct {
	State     string // "is running"
	Collision string // the networks of this host that overlap the subnet of the pods; "" if none do
	Problem   string // why containerd does not start; "" if it runs or no start has failed
	Fix       string // how to fix the problem
	Replaced  string // the last replacement of a damaged store; "" if there is none
	// SandboxName is the name of the sandbox image in containerd's configuration; "" if containerd was not started.
	SandboxName string
	Sandbox     string // why containerd does not use podrun's sandbox image; "" if it uses it or does not run
	Lost        string // the blobs of images that containerd has lost and that podrun can load again; "" if there are none
}

// imageFaults returns the blobs of images that containerd has lost and that podrun can load again, and why
// containerd does not use podrun's sandbox image. Both may be empty.
func imageFaults(ctx context.Context, r *Runtime) (lost, sandbox string) {
	var faults []string
	if err := (ownPause{r}).check(ctx); err != nil {
		if _, damaged := errors.AsType[lostBlob](err); !damaged {
			return "", err.Error()
		}
		faults = append(faults, err.Error())
	}
	if embedded.ReadDaemon(ctx, r.layout).Usable(ctx, r.layout) {
		found, _ := findLost(ctx, r) // unknown if the user may not ask the runtime
		for _, archived := range slices.Sorted(maps.Keys(found)) {
			faults = append(faults, found[archived].Error())
		}
	}
	return strings.Join(faults, "; "), ""
}

// Embedded examines the embedded runtime. It changes nothing.
func (r *Runtime) Embedded(ctx context.Context) (e State) {
	s, err := r.Status(ctx)
	if err != nil || s.Kind != string(embedded.Own) {
		return e
	}
	e.State = "is " + s.State
	if s.Upgradable() {
		e.State += "; run 'podrun runtime upgrade' to start the version in this podrun binary"
	}
	e.Collision, _ = r.collision(ctx) // unknown if the user is not root, or if the routes cannot be read
	e.Replaced = ownStore{r}.note(ctx)
	e.Lost, e.Sandbox = imageFaults(ctx, r)
	e.SandboxName, _ = embedded.ReadSandboxImage(ctx, r.layout) // the image then has only the names that the runtime reports
	if e.Problem = s.Problem; e.Problem != "" {
		e.Fix = "fix the cause, then run 'podrun runtime up'; 'podrun runtime logs' shows containerd's log"
		if s.State == "starting" {
			e.Fix = "wait until containerd answers; if it makes no progress, 'podrun runtime up' ends it and starts it again; 'podrun runtime logs' shows its log"
		} else if embedded.ReadEnds(ctx, r.layout).Damaged > 0 {
			e.Fix = ownStore{r}.hint(ctx)
		}
	}
	return e
}

// Upgrade replaces the running embedded runtime with the archive of this binary. Containers
// keep running. It returns false if the version in this binary is already running. If the new
// version does not start, Upgrade restarts the old one. Unless force is set, it refuses to replace
// containerd with an older version.
func (r *Runtime) Upgrade(ctx context.Context, force bool) (bool, error) {
	if r.archive == nil {
		return false, &problem.Error{Kind: problem.Runtime, Object: "embedded runtime",
			Err:  errors.New("this podrun binary does not contain a runtime to upgrade to"),
			Hint: "use podrun-bundle"}
	}
	ctx, end := runtimeStart{r}.attend(ctx)
	defer end()
	lock, err := r.lock(ctx)
	if err != nil {
		return false, waitEnded(ctx, err)
	}
	defer lock.Unlock()
	record, err := r.readChoice(ctx)
	if err != nil {
		return false, err
	}
	if record == nil || record.Kind != embedded.Own {
		return false, &problem.Error{Kind: problem.Refused, Object: "embedded runtime",
			Err: errors.New("is not used by this root directory"), Hint: "see 'podrun runtime status'"}
	}
	last := embedded.ReadDaemon(ctx, r.layout)
	if last.Alive() && last.Digest == r.archive.Digest {
		return false, nil
	}
	if !force {
		used := record.Digest
		if last != nil {
			used = last.Digest
		}
		if err := embedded.CheckUpgrade(ctx, r.layout, used, *r.archive); err != nil {
			return false, err
		}
	}
	if err := embedded.Unpack(ctx, r.layout, *r.archive); err != nil {
		return false, err
	}
	if err := embedded.Stop(ctx, r.layout, last); err != nil {
		return false, &problem.Error{Kind: problem.Runtime, Object: "embedded runtime", Err: err}
	}
	if _, err := (runtimeStart{r}).launch(ctx, r.archive.Digest); err != nil {
		return false, errors.Join(err, r.startAgain(ctx, last))
	}
	noteFormer(r)
	return true, embedded.WriteChoice(r.layout, embedded.Choice{Kind: embedded.Own, Digest: r.archive.Digest})
}

// startAgain restarts the previous runtime after a failed upgrade.
func (r *Runtime) startAgain(ctx context.Context, last *embedded.Daemon) error {
	if last == nil || embedded.Verify(ctx, r.layout, last.Digest) != nil {
		return nil
	}
	ctx, cancel := wait.CleanupContext(ctx, lease.UndoTimeout)
	defer cancel()
	if err := embedded.Stop(ctx, r.layout, embedded.ReadDaemon(ctx, r.layout)); err != nil {
		return err
	}
	if _, err := (runtimeStart{r}).launch(ctx, last.Digest); err != nil {
		return err
	}
	r.Warn(problem.List{{Warning: true, Object: "embedded runtime", Message: "podrun restarted the previous version"}})
	return nil
}

// Removable returns an error if `podrun serve` is running, or if pods exist. In the latter case,
// the error lists the pods.
func (r *Runtime) Removable(ctx context.Context, force bool) error {
	refuse := func(err error, hint string) error {
		return &problem.Error{Kind: problem.Refused, Object: "embedded runtime", Err: err, Hint: hint}
	}
	if store.Supervised(r.settings.Layout()) {
		return refuse(errors.New("podrun serve uses it"), "stop it first: 'systemctl stop podrun.service'")
	}
	if force {
		return nil
	}
	pods, err := r.pods(ctx)
	if err != nil {
		return err
	}
	if len(pods) == 0 {
		return nil
	}
	return refuse(fmt.Errorf("%d pods use it: %s", len(pods), strings.Join(pods[:min(5, len(pods))], ", ")), "delete them ('podrun delete --all --all-namespaces'), or use --force, which deletes them first")
}

// HasPods reports whether the embedded runtime has pods.
func (r *Runtime) HasPods(ctx context.Context) (bool, error) {
	pods, err := r.pods(ctx)
	return len(pods) > 0, err
}

// pods lists the pods of the root directory if they run on the embedded runtime, and all other
// pods of that runtime, as namespace/name.
func (r *Runtime) pods(ctx context.Context) ([]string, error) {
	record, err := r.readChoice(ctx)
	if err != nil {
		return nil, err
	}
	var pods []string
	if record != nil && record.Kind == embedded.Own {
		stored, err := store.StoredPods(r.settings.Layout())
		if err != nil {
			return nil, err
		}
		for _, id := range stored {
			pods = append(pods, id.String())
		}
	}
	if last := embedded.ReadDaemon(ctx, r.layout); last.Alive() {
		client, err := r.client()
		if err != nil {
			return nil, err
		}
		defer client.Close()
		sandboxes, err := client.ListPodSandbox(ctx, nil)
		if err != nil {
			return nil, &problem.Error{Kind: problem.Runtime, Object: "embedded runtime",
				Op: "list its pods", Err: err,
				Hint: fmt.Sprintf("kill process %d, and run the command again", last.PID)}
		}
		for _, sb := range sandboxes {
			pods = append(pods, sb.GetMetadata().GetNamespace()+"/"+sb.GetMetadata().GetName())
		}
	}
	slices.Sort(pods)
	return slices.Compact(pods), nil
}

// Down removes the embedded runtime, everything that it created on this host, and the record of its
// use. The error lists the objects that Down could not remove. It can be repeated. Unless force is
// set, Down returns the same error as Removable if pods exist. If force is set, it removes the
// remaining pods without calling containerd, because containerd may be unable to start, and returns their results.
func (r *Runtime) Down(ctx context.Context, force bool) (pods []reconcile.Result, err error) {
	lock, err := r.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	if err := r.Removable(ctx, force); err != nil {
		return nil, err // a user applied a pod after the first check
	}
	record, err := r.readChoice(ctx)
	if err != nil {
		return nil, err
	}
	if force && record != nil && record.Kind == embedded.Own {
		pods, err = r.RemoveStored(ctx)
		for _, p := range pods {
			err = errors.Join(err, p.Err)
		}
		if err != nil {
			return pods, err
		}
	}
	if err := embedded.Remove(ctx, r.layout, r.settings.CgroupRoot); err != nil {
		return pods, &problem.Error{Kind: problem.Runtime, Object: "embedded runtime", Op: "remove it",
			Err: err, Hint: "run 'podrun runtime down' again"}
	}
	if err := errors.Join(sweep(ctx, r), leave(ctx, r.layout)); err != nil {
		return pods, err
	}
	if record == nil || record.Kind == embedded.Own {
		return pods, nil
	}
	if err := embedded.MakeDirs(r.layout); err != nil {
		return pods, err
	}
	return pods, embedded.WriteChoice(r.layout, *record)
}

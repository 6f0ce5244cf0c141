package ownruntime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/embedded/archive"
	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/host/doctor"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/rootless"
	"github.com/podrun/podrun/run/store"
)

// RuntimeUse states what a command requires of the runtime.
type Use = embedded.Use

// The values of RuntimeUse. Each value includes the requirements of the previous ones.
const (
	Looks  = embedded.Looks  // examines the host; starts nothing
	Reads  = embedded.Reads  // reads and shows state
	Acts   = embedded.Acts   // changes pods
	Starts = embedded.Starts // starts an embedded runtime, and records the choice of the runtime
)

// RuntimeOptions are the options of NewRuntime.
type Options struct {
	Command string             // names this invocation in the messages of processes that wait for it
	Note    func(string)       // receives a line for the user
	Warn    func(problem.List) // receives warnings
	// Replaces permits this command to replace a damaged store. Attended means that the user requests the
	// replacement, so that podrun replaces the store even if it replaced an earlier store recently.
	Replaces, Attended bool
}

// Runtime is the container runtime of a root directory: one that is installed on this host,
// or the embedded one.
type Runtime struct {
	settings nodeconfig.Settings
	layout   embedded.Layout
	archive  *embedded.Archive // nil if this binary contains no embedded runtime
	Options

	problem atomic.Pointer[string] // see Condition; nil if there is no problem
}

// NewRuntime returns the runtime of the settings.
func New(s nodeconfig.Settings, o Options) *Runtime {
	r := &Runtime{settings: s, layout: embedded.ReadLayout(s.RootDir), Options: o}
	if a, ok := archive.Open(); ok {
		r.archive = &embedded.Archive{Digest: a.Digest, Unpacked: a.Unpacked, Reader: a.Reader, Tar: a.Tar, File: a.File}
	}
	return r
}

// Reasons, other than failures, why the embedded runtime is not running.
var (
	ErrNotUsed = errors.New("has not been used yet")
	ErrStopped = errors.New("has not been started since this host booted")
)

// wanted returns the value of --runtime: auto, embedded or an endpoint.
func (r *Runtime) wanted() string {
	switch {
	case r.settings.ContainerRuntimeEndpoint != "":
		return r.settings.ContainerRuntimeEndpoint
	case r.settings.Runtime != "" && r.settings.Runtime != embedded.Auto:
		return r.settings.Runtime
	case rootless.User():
		return embedded.ByFlag // the runtimes of this host are root's
	}
	return embedded.Auto
}

// External returns the endpoint of an external runtime that the settings or podrun's record name.
// It returns "" if there is none, or if the embedded runtime is used. It starts nothing and
// records nothing.
func (r *Runtime) External(ctx context.Context) string {
	wanted := r.wanted()
	if wanted != embedded.Auto && wanted != embedded.ByFlag {
		return wanted
	}
	record, err := embedded.ReadChoice(ctx, r.layout)
	if wanted != embedded.Auto || err != nil || record == nil || record.Kind != embedded.External {
		return ""
	}
	return record.Endpoint
}

// Open returns the endpoint of the runtime that a command uses. If use is RuntimeStarts, it records
// the choice and, if the choice is the embedded runtime, starts that runtime. If the embedded
// runtime was started since the last boot but has exited, Open restarts it for any use except
// RuntimeLooks. The error is of kind Runtime or Refused.
func (r *Runtime) Open(ctx context.Context, use Use) (string, error) {
	record, d, err := r.choose(ctx, use)
	if err != nil {
		return "", err
	}
	if use == Starts {
		// The command did not know that it starts the runtime.
		if err := Enter(ctx, r, true); err != nil {
			return "", err
		}
	}
	if use >= Reads && os.Geteuid() == 0 {
		if err := store.RewriteHolders(r.settings.Layout(), r.layout.Lock()); err != nil && !store.CannotWrite(err) {
			r.Warn(problem.List{problem.WarningOf(fmt.Errorf("remove the arguments of earlier commands from lock files: %w", err))})
		}
	}
	if record != nil && use >= Acts {
		if err := r.recordRecovered(ctx, *record); err != nil {
			return "", err
		}
	}
	if d.Kind == embedded.External {
		return d.Endpoint, r.recordExternal(ctx, d)
	}
	last := embedded.ReadDaemon(ctx, r.layout)
	running := last.Usable(ctx, r.layout)
	switch {
	case running && (use < Starts || !d.Record && !last.Unrecorded() && !embedded.HasNewImages(r.layout) && !(ownStore{r}).unannounced(ctx) && !reconfigures(ctx, r) && !(r.Attended && r.hasLostImages(ctx))):
		trimLog(r.layout, r.Warn)
		if use == Starts && os.Geteuid() == 0 {
			r.warnOfSubnets(ctx)
			r.restoreNetwork(ctx)
		}
	case use == Looks && last.Alive():
		return "", &problem.Error{Kind: problem.Runtime, Object: "embedded runtime",
			Err: errors.New(startingText(last.PID)), Hint: "'podrun runtime logs' shows its log"}
	case use == Starts || last != nil && use > Looks:
		if os.Geteuid() != 0 {
			return "", &problem.Error{Kind: problem.Runtime, Object: "embedded runtime",
				Err:  errors.New("is not running, and user " + rootless.UserName() + " cannot start it"),
				Hint: "use sudo"}
		}
		if err := r.start(ctx); err != nil {
			return "", err
		}
	case record == nil:
		return "", &problem.Error{Kind: problem.Runtime, Object: "embedded runtime", Err: ErrNotUsed,
			Hint: "run 'podrun apply' or 'podrun runtime up' to start it"}
	default:
		return "", &problem.Error{Kind: problem.Runtime, Object: "embedded runtime", Err: ErrStopped,
			Hint: "run 'podrun runtime up', 'podrun apply', 'podrun run' or 'podrun serve' to start it"}
	}
	return r.layout.Endpoint(), nil
}

// choose decides which runtime is used.
func (r *Runtime) choose(ctx context.Context, use Use) (*embedded.Choice, embedded.Decision, error) {
	in := embedded.ChooseInput{Wanted: r.wanted(), Use: use, Archive: r.archive != nil}
	var err error
	if in.Record, err = r.readChoice(ctx); err != nil {
		// A user other than root may use a runtime that is named explicitly if the runtime permits
		// the user to connect.
		if !errors.Is(err, fs.ErrPermission) || in.Wanted == embedded.Auto || in.Wanted == embedded.ByFlag {
			return nil, embedded.Decision{}, err
		}
		return nil, embedded.Decision{Kind: embedded.External, Endpoint: in.Wanted}, nil
	}
	if rootless.User() && in.Wanted == embedded.ByFlag && !in.Archive && in.Record == nil {
		return nil, embedded.Decision{}, withoutArchive()
	}
	if embedded.NeedsSurvey(in.Wanted, in.Record) {
		in.Survey = embedded.ReadSurvey(ctx)
	}
	if in.Survey != nil || embedded.Changes(in.Wanted, in.Record) && use >= Acts {
		stored, err := store.StoredPods(r.settings.Layout())
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return nil, embedded.Decision{}, err
		}
		for _, id := range stored {
			in.Pods = append(in.Pods, id.String())
		}
	}
	d, err := embedded.Choose(in)
	if err != nil && in.Survey != nil {
		// podrun reads the installation instructions only for an error message.
		in.Install = doctor.InstallRuntime(discover.Software())
		d, err = embedded.Choose(in)
	}
	return in.Record, d, err
}

// recordExternal records an external runtime only after it responds, so that a mistyped endpoint
// is not used again. If the record cannot be written, that is an error, because podrun could not
// write the pod's files either.
func (r *Runtime) recordExternal(ctx context.Context, d embedded.Decision) error {
	if !d.Record || os.Geteuid() != 0 || embedded.ReadSocket(ctx, d.Endpoint, time.Second) != embedded.Answers {
		return nil
	}
	lock, err := r.lock(ctx)
	if err == nil {
		defer lock.Unlock()
		err = r.recordUnlessOther(ctx, embedded.Choice{Kind: embedded.External, Endpoint: d.Endpoint})
	}
	if store.CannotWrite(err) || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && d.Notice != "" {
		r.Note(d.Notice)
	}
	return err
}

// recordUnlessOther records a choice, unless another podrun process has recorded a different
// one since this process read the record. If the first two commands run concurrently, they must
// make the same choice. The layout's lock must be held.
func (r *Runtime) recordUnlessOther(ctx context.Context, c embedded.Choice) error {
	now, err := embedded.ReadChoice(ctx, r.layout)
	switch {
	case isLost(err):
		now = nil
	case err != nil:
		return err
	}
	if r.wanted() == embedded.Auto && now != nil && (now.Kind != c.Kind || now.Endpoint != c.Endpoint) {
		return &problem.Error{Kind: problem.Runtime,
			Err:  errors.New("another podrun process chose a different container runtime at the same time"),
			Hint: "run the command again"}
	}
	return r.writeChoice(c)
}

// lock prevents other podrun processes from starting, stopping or removing the runtime.
func (r *Runtime) lock(ctx context.Context) (*store.FileLock, error) {
	if err := embedded.MakeDirs(r.layout); err != nil {
		return nil, err
	}
	return store.Lock(ctx, r.layout.Lock(), store.NewHolder(r.Command, store.RandomHex(8)), func(holder string) { r.Note("waiting for " + holder) })
}

// client connects to the embedded runtime.
func (r *Runtime) client() (*cri.Client, error) {
	return cri.Dial(r.layout.Endpoint(), "", r.settings.RuntimeRequestTimeout)
}

// trimLog limits the size of the log of the embedded runtime.
func trimLog(l embedded.Layout, warn func(problem.List)) {
	if err := embedded.TrimLog(l); err != nil && !errors.Is(err, fs.ErrPermission) {
		warn(problem.List{problem.WarningOf(err)})
	}
}

// Logs writes the last tail lines of the embedded runtime's log, or all lines if tail is negative.
// If follow is true, it continues to write new lines until ctx ends.
func (r *Runtime) Logs(ctx context.Context, w io.Writer, tail int, follow bool) error {
	err := embedded.CopyLog(ctx, r.layout, w, tail, follow)
	if errors.Is(err, fs.ErrNotExist) {
		return r.noLog(ctx)
	}
	return err
}

// noLog returns the error for an embedded runtime without a log. If another runtime is used, the error
// names that runtime's log.
func (r *Runtime) noLog(ctx context.Context) error {
	e := &problem.Error{Kind: problem.Runtime, Object: "embedded runtime",
		Err:  errors.New("was never started for this root directory"),
		Hint: "see 'podrun runtime status'"}
	s, err := r.Status(ctx)
	switch {
	case err != nil:
		return e
	case s.Kind == string(embedded.Own):
		e.Hint = "the first pod starts it; its log will be " + s.Log
		return e
	}
	e.Err = errors.New("is not used by this root directory: its pods use the container runtime at " + s.Endpoint)
	switch path, _ := cri.SocketPath(s.Endpoint); path {
	case "/run/containerd/containerd.sock":
		e.Hint = "use 'journalctl -u containerd' for the log of this runtime"
	case "/run/crio/crio.sock", "/var/run/crio/crio.sock":
		e.Hint = "use 'journalctl -u crio' for the log of this runtime"
	default:
		e.Hint = "see the log of the service that starts this runtime"
	}
	return e
}

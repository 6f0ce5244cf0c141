package embedded

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/rootless"
	"github.com/podrun/podrun/internal/statefile"
	"github.com/podrun/podrun/internal/wait"
)

// StartOptions are the parameters of Start other than the layout.
type StartOptions struct {
	Digest       string         // the digest of an archive that is unpacked and verified
	SandboxImage string         // the sandbox image by digest: name@sha256:…
	CgroupRoot   string         // --cgroup-root
	CgroupDriver string         // --cgroup-driver; empty to detect it
	PodCIDR      []netip.Prefix // --pod-cidr; nil to choose the pod subnets
	Environment  []string
	// VerifyImages makes containerd ask the program in Layout.Verifier before it pulls an image.
	VerifyImages bool
	// Running is a daemon that an earlier podrun process has started and has not prepared for use; nil to
	// start one.
	Running *Daemon
	// EndsStalled permits the command to end a daemon that makes no progress (AttendStart).
	EndsStalled bool
}

// MakeDirs creates the directories of the runtime. podrun calls it before it locks the runtime.
func MakeDirs(l Layout) error {
	if err := os.MkdirAll(l.Dir(), 0o750); err != nil {
		return &problem.Error{Kind: problem.Runtime, Object: "embedded runtime", Err: err, Hint: "use a directory that you can write, with --root-dir"}
	}
	return nil
}

// Start starts containerd, or waits for the one that is starting, and returns when it answers. Call it
// with the layout's lock held and no other daemon running. If ctx ends, it leaves the daemon running: a
// slow start that each command ends would never succeed. The error is then of kind Deadline or Runtime, or
// the cause of ctx. The error is of kind Refused if the wanted pod subnets cannot be used; otherwise it is
// of kind Runtime, and ends with the last lines of containerd's log. It wraps a Damage if the store is
// damaged.
func Start(ctx context.Context, l Layout, o StartOptions) (Daemon, error) {
	if err := CheckHost(ctx, l, 0); err != nil {
		return Daemon{}, err
	}
	d, from, err := startUnrecorded(ctx, l, o)
	if err == nil {
		NoteAnswer(ctx, l)
		return d, nil
	}
	if refused := (*problem.Error)(nil); errors.As(err, &refused) && refused.Kind == problem.Refused {
		return Daemon{}, err // podrun could not choose the subnets, and has started nothing
	}
	if ctx.Err() != nil && !o.ends(ctx) {
		return d, startEnded(ctx, d)
	}
	ctx = context.WithoutCancel(ctx)
	err, damage := explain(ctx, l, from, err)
	ReadEnds(ctx, l).after(d, damage, err.Error(), time.Now()).write(l)
	return d, &problem.Error{Kind: problem.Runtime, Object: "embedded runtime", Op: "start containerd", Err: err, Hint: "run 'podrun runtime logs' to show its complete log"}
}

// ends reports whether the command ends the daemon, after ctx has ended.
func (o StartOptions) ends(ctx context.Context) bool {
	_, stalled := errors.AsType[Stalled](context.Cause(ctx))
	return stalled && o.EndsStalled
}

// explain returns why a start failed. It uses the error of the start, and the text that containerd has
// written to the log since the log had the given size. damage is nil if the store is not damaged, or
// if this host prevents its use: the reason is then the error of the host.
func explain(ctx context.Context, l Layout, from int64, err error) (reason error, damage *Damage) {
	if d, found := errors.AsType[Damage](err); found {
		damage = &d
	} else {
		log := readSince(ctx, l, from)
		if damage = classifyLog(log); damage == nil {
			if said := lastWords(log); said != "" {
				err = fmt.Errorf("%w; it wrote: %s", err, said)
			}
			return err, nil
		}
	}
	if host := probeStore(ctx, l); host != nil {
		return host, nil
	}
	return *damage, damage
}

// startUnrecorded is Start without the record of a failure. It also returns the size of the log before
// containerd wrote to it.
func startUnrecorded(ctx context.Context, l Layout, o StartOptions) (d Daemon, from int64, err error) {
	var traits Traits
	if o.Running != nil {
		if d = *o.Running; d.LogFrom != nil {
			from = *d.LogFrom
		}
		traits, err = readTraits(ctx, l, o.CgroupDriver)
	} else {
		d, traits, from, err = create(ctx, l, o)
	}
	if err != nil {
		return d, from, err
	}
	if err = awaitReady(ctx, l, d); err == nil {
		damage := checkStore(ctx, l, traits.snapshotter())
		if damage == nil {
			err = removeLostSnapshot(ctx, l, traits.snapshotter())
		} else {
			err = *damage
		}
		if err == nil {
			return d, from, nil
		}
	}
	if ctx.Err() != nil && !o.ends(ctx) {
		return d, from, err
	}
	// A daemon that cannot be used must not count as running.
	return d, from, errors.Join(err, Stop(context.WithoutCancel(ctx), l, &d))
}

// create starts a daemon. It also returns the traits of the host with which it has configured the daemon,
// and the size of the log before the daemon wrote to it.
func create(ctx context.Context, l Layout, o StartOptions) (d Daemon, traits Traits, from int64, err error) {
	if from, err = logSize(l); err != nil {
		return d, traits, from, err
	}
	files, err := readStoreFiles(l)
	if err != nil {
		return d, traits, from, err
	}
	if gap := files.gap(); gap != nil {
		return d, traits, from, *gap
	}
	if traits, err = configure(ctx, l, o); err != nil {
		return d, traits, from, err
	}
	d, err = spawn(ctx, l, o, traits, from)
	return d, traits, from, err
}

// remember adds the variables of the command that starts the daemon to the recorded ones. It
// records the result and returns it. The file may contain the password of a proxy.
func remember(ctx context.Context, l Layout, own []string) (string, error) {
	data, err := hostfile.ReadNoFollow(ctx, l.Environment(), maxRecord)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	record := Remember(string(data), own)
	if record == string(data) {
		return record, nil
	}
	return record, hostfile.Write(l.Environment(), []byte(record), 0o600)
}

// configure writes containerd's configuration files.
func configure(ctx context.Context, l Layout, o StartOptions) (Traits, error) {
	// With these modes, the root user of a user namespace can access only those parts of the state
	// directory that it requires.
	state := fs.FileMode(0o711)
	if rootless.User() {
		state = 0o700 // pods of an ordinary user have no user namespaces of their own
	}
	for _, dir := range []struct {
		path string
		mode fs.FileMode
	}{{filepath.Dir(l.State()), state}, {l.State(), state}, {l.Shims(), 0o700}, {l.NetworkDir(), 0o750}, {l.Addresses(), 0o750}} {
		if err := errors.Join(os.MkdirAll(dir.path, dir.mode), os.Chmod(dir.path, dir.mode)); err != nil {
			return Traits{}, err
		}
	}
	if err := removeIfExists(l.Socket()); err != nil {
		// A stale socket would accept no connections.
		return Traits{}, err
	}
	traits, err := readTraits(ctx, l, o.CgroupDriver)
	if err != nil {
		return Traits{}, err
	}
	if err := writeNetwork(ctx, l, o); err != nil {
		return Traits{}, err
	}
	return traits, hostfile.WriteUnsynced(l.Config(), Config(l, o, traits), 0o640)
}

// spawn starts the process and records it, with the size of the log.
func spawn(ctx context.Context, l Layout, o StartOptions, traits Traits, from int64) (Daemon, error) {
	log, err := os.OpenFile(l.Log(), os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW, 0o640)
	if err != nil {
		return Daemon{}, err
	}
	defer log.Close()
	record, err := remember(ctx, l, o.Environment)
	if err != nil {
		return Daemon{}, err
	}
	env := Environment(l, o.Digest, record, o.Environment)
	if rootless.User() {
		env = append(env, "PODRUN_OCI_CGROUPS="+traits.ociCgroups()) // for podrun-oci-create
	}
	argv := []string{filepath.Join(l.Unpacked(o.Digest), "bin", "containerd"), "--config", l.Config()}
	pid, unit := 0, ""
	switch {
	case len(traits.Delegated) > 0:
		unit = newUnit(l)
		r := rootless.Inside()
		pid, err = spawnUserUnit(ctx, l, unit, rootless.EnterArgs(r.Enter, r.PID, r.StartTime, argv[0], argv[1:]), env)
	case rootless.User():
		pid, err = spawnProcess(argv, env, log)
	case systemdRuns():
		unit = newUnit(l)
		pid, err = spawnUnit(ctx, l, unit, argv, env)
	default:
		if pid, err = spawnProcess(argv, env, log); err == nil {
			err = ownCgroups(l, o.CgroupRoot, pid)
		}
	}
	if err != nil {
		return Daemon{}, err
	}
	d, err := Identify(context.WithoutCancel(ctx), pid)
	d.Digest, d.Unit, d.LogFrom, d.Starting = o.Digest, unit, &from, true
	if err != nil {
		return d, fmt.Errorf("it exited immediately: %w", err)
	}
	return d, d.write(l)
}

// newUnit returns a new name for the daemon's unit.
func newUnit(l Layout) string {
	word := make([]byte, 4)
	// Read never fails (crypto/rand, Go 1.24).
	rand.Read(word)
	return l.Unit(hex.EncodeToString(word))
}

// write records the daemon. It keeps the record of a newer podrun: podrun then searches for the process.
func (d Daemon) write(l Layout) error {
	if err := daemonFile.Write(l.Daemon(), d); err != nil && !statefile.IsNewer(err) {
		return fmt.Errorf("write %s: %w", daemonFile.What, err)
	}
	return nil
}

// Ready records that the daemon is prepared for use. The layout's lock must be held.
func (d *Daemon) Ready(l Layout) error {
	d.Starting = false
	if err := d.write(l); err != nil {
		return &problem.Error{Kind: problem.Runtime, Object: "embedded runtime", Op: "record that containerd has started", Err: err}
	}
	return nil
}

// awaitReady waits until containerd answers.
func awaitReady(ctx context.Context, l Layout, d Daemon) error {
	for !Listening(ctx, l) {
		if err := pause(ctx, d); err != nil {
			return err
		}
	}
	client, err := cri.Dial(l.Endpoint(), "", AnswerWithin)
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		if _, err = client.Version(ctx); err == nil {
			return nil
		}
		if ended := pause(ctx, d); ended != nil {
			return errors.Join(ended, err)
		}
	}
}

// pause waits between two requests to the daemon. It returns an error if the daemon has exited.
func pause(ctx context.Context, d Daemon) error {
	if !d.Alive() {
		return fmt.Errorf("process %d exited", d.PID)
	}
	return wait.Sleep(ctx, 3*time.Millisecond)
}

// AwaitReady waits until a daemon that another podrun process has started answers.
func AwaitReady(ctx context.Context, l Layout, d Daemon) error {
	if err := awaitReady(ctx, l, d); err != nil {
		if ctx.Err() != nil {
			return startEnded(ctx, d)
		}
		return &problem.Error{Kind: problem.Runtime, Object: "embedded runtime", Op: "wait for containerd", Err: err, Hint: "run 'podrun runtime logs' to show its log"}
	}
	return nil
}

// WriteChoice records which runtime the pods of a root directory use. The error matches statefile.IsNewer
// if a newer podrun wrote the record, which it still needs.
func WriteChoice(l Layout, c Choice) error {
	if err := choiceFile.Write(l.Choice(), c); err != nil {
		return &problem.Error{Kind: problem.Runtime, Op: "record the container runtime", Err: err}
	}
	return nil
}

package embedded

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
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
	"github.com/podrun/podrun/internal/wait"
)

// startWithin limits the time until containerd answers. If the host is slow, because of its disk or
// because it is emulated, that is no reason to kill containerd. A limit is needed because
// containerd waits forever for a database that another process has open, and podrun serve has no
// other time limit. Other commands have shorter limits.
const startWithin = 5 * time.Minute

// StartOptions are the parameters of Start other than the layout.
type StartOptions struct {
	Digest       string         // the digest of an archive that is unpacked and verified
	SandboxImage string         // the sandbox image by digest: name@sha256:…
	CgroupRoot   string         // --cgroup-root
	CgroupDriver string         // --cgroup-driver; empty to detect it
	PodCIDR      []netip.Prefix // --pod-cidr; nil to choose the pod subnets
	Environment  []string
}

// MakeDirs creates the directories of the runtime. podrun calls it before it locks the runtime.
func MakeDirs(l Layout) error {
	if err := os.MkdirAll(l.Dir(), 0o750); err != nil {
		return &problem.Error{Kind: problem.Runtime, Object: "embedded runtime", Err: err, Hint: "run as root, or set another directory with --root-dir"}
	}
	return nil
}

// Start starts containerd, and returns when it answers. Call it with the layout's lock
// held and no daemon running. The error is of kind Refused if the wanted pod subnets cannot be
// used; otherwise it is of kind Runtime, and ends with the last lines of containerd's log. It wraps
// a Damage if the store is damaged.
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
	if ctx.Err() != nil {
		return d, context.Cause(ctx)
	}
	err, damage := explain(ctx, l, from, err)
	ReadEnds(ctx, l).after(d, damage, err.Error(), time.Now()).write(l)
	return d, &problem.Error{Kind: problem.Runtime, Object: "embedded runtime", Op: "start containerd", Err: err, Hint: "run 'podrun runtime logs' to show its complete log"}
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
	if from, err = logSize(l); err != nil {
		return d, from, err
	}
	files, err := readStoreFiles(l)
	if err != nil {
		return d, from, err
	}
	if gap := files.gap(); gap != nil {
		return d, from, *gap
	}
	traits, err := configure(ctx, l, o)
	if err != nil {
		return d, from, err
	}
	d, err = spawn(ctx, l, o, from)
	if err != nil {
		return d, from, err
	}
	if err = awaitReady(ctx, l, d); err == nil {
		damage := checkStore(ctx, l, traits.snapshotter())
		if damage == nil {
			return d, from, nil
		}
		err = *damage
	}
	// A daemon that does not answer, for example because another process has its
	// database open, must not count as running.
	return d, from, errors.Join(err, Stop(context.WithoutCancel(ctx), l, &d))
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
	for _, dir := range []struct {
		path string
		mode fs.FileMode
	}{{filepath.Dir(l.State()), 0o711}, {l.State(), 0o711}, {l.Shims(), 0o700}, {l.NetworkDir(), 0o750}, {l.Addresses(), 0o750}} {
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
func spawn(ctx context.Context, l Layout, o StartOptions, from int64) (Daemon, error) {
	boot, err := bootID(ctx)
	if err != nil {
		return Daemon{}, err
	}
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
	d := Daemon{SchemaVersion: schema, BootID: boot, Digest: o.Digest, LogFrom: &from}
	argv := []string{filepath.Join(l.Unpacked(o.Digest), "bin", "containerd"), "--config", l.Config()}
	if systemdRuns() {
		word := make([]byte, 4)
		// Read never fails (crypto/rand, Go 1.24).
		rand.Read(word)
		d.Unit = l.Unit(hex.EncodeToString(word))
		d.PID, err = spawnUnit(ctx, l, d.Unit, argv, env)
	} else {
		d.PID, err = spawnProcess(l, argv, env, o.CgroupRoot, log)
	}
	if err != nil {
		return d, err
	}
	if _, d.StartTime, err = readStat(d.PID); err != nil {
		return d, fmt.Errorf("it exited immediately: %w", err)
	}
	data, err := json.Marshal(d)
	if err != nil {
		return d, err
	}
	return d, hostfile.WriteUnsynced(l.Daemon(), append(data, '\n'), 0o600)
}

// awaitReady waits until containerd answers.
func awaitReady(ctx context.Context, l Layout, d Daemon) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startWithin, fmt.Errorf("no answer at %s within %s", l.Endpoint(), startWithin))
	defer cancel()
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
		return &problem.Error{Kind: problem.Runtime, Object: "embedded runtime", Op: "wait for containerd", Err: err, Hint: "run 'podrun runtime logs' to show its log"}
	}
	return nil
}

// WriteChoice records which runtime the pods of a root directory use.
func WriteChoice(l Layout, c Choice) error {
	data, err := c.encode()
	if err == nil {
		err = hostfile.Write(l.Choice(), data, 0o640)
	}
	if err != nil {
		return &problem.Error{Kind: problem.Runtime, Op: "record the container runtime", Err: err}
	}
	return nil
}

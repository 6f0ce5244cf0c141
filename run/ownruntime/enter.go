package ownruntime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/embedded/userns"
	"github.com/podrun/podrun/internal/faultpoint"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/rootless"
	"github.com/podrun/podrun/internal/subid"
	"github.com/podrun/podrun/internal/trace"
)

// Enter makes this process enter the namespaces of an ordinary user, in which it has the privileges that pods require,
// and execute podrun again with the same arguments. Call it before the command reads its input. It does nothing for
// root, for a process that has entered, for another runtime than the embedded one, and for a command that reads only
// (starts is false) while the runtime has not been started since the last boot. If podrun-rootless does not run, Enter
// starts it. The error is of kind Runtime.
func Enter(ctx context.Context, r *Runtime, starts bool) error {
	if !rootless.User() || rootless.Inside() != nil || r.wanted() != embedded.ByFlag && !IsOfUser(r.wanted()) {
		return nil
	}
	if record := rootless.ReadRecord(); record.Alive() {
		faultpoint.At("namespaces/enter")
		return userns.Enter(record, os.Args[1:])
	}
	if !starts && userns.Find(rootless.RunDir()) == nil && embedded.ReadDaemon(ctx, r.layout) == nil {
		return nil
	}
	if err := startNamespaces(ctx, r); err != nil {
		return err
	}
	faultpoint.At("namespaces/enter")
	record := rootless.ReadRecord()
	if record == nil {
		return &problem.Error{Kind: problem.Runtime, Object: "podrun-rootless",
			Err:  errors.New("is ready, but has written no record"),
			Hint: "check " + rootless.RecordFile(rootless.RunDir())}
	}
	return userns.Enter(record, os.Args[1:])
}

// IsOfUser reports whether an endpoint is that of an embedded runtime of the ordinary user who runs podrun.
func IsOfUser(endpoint string) bool {
	path, err := cri.SocketPath(endpoint)
	return err == nil && rootless.User() && strings.HasPrefix(path, rootless.RunDir()+"/")
}

// Unpacked reports whether files of an embedded runtime exist.
func Unpacked(r *Runtime) bool {
	digests, err := embedded.UnpackedDigests(r.layout)
	return err != nil || len(digests) > 0
}

// RootRuns reports whether an ordinary user runs this command while root's podrun has its own pods on this host.
func RootRuns() bool { return rootless.User() && userns.RootRuns() }

// startNamespaces unpacks the archive and starts podrun-rootless. If a process of earlier namespaces lives, it starts
// it there.
func startNamespaces(ctx context.Context, r *Runtime) error {
	if err := checkOwner(r.layout.RootDir); err != nil {
		return err
	}
	if err := userns.MakeRunDir(rootless.RunDir()); err != nil {
		return err
	}
	lock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if rootless.ReadRecord().Alive() {
		return nil // another podrun process has started it
	}
	bin, err := unpackForUser(ctx, r)
	if err != nil {
		return err
	}
	// A process that leads into the namespaces may end before podrun-rootless has entered them.
	for {
		found := userns.Find(rootless.RunDir())
		err := startKeeper(ctx, r, bin, found)
		if err == nil || ctx.Err() != nil || found == nil || rootless.Runs(found.PID, found.StartTime) {
			return err
		}
	}
}

// checkOwner returns an error if a root directory belongs to another user than the one who runs podrun.
func checkOwner(rootDir string) error {
	var st unix.Stat_t
	if unix.Stat(rootDir, &st) != nil || int(st.Uid) == os.Geteuid() {
		return nil // if the directory cannot be read, the unpacking reports it
	}
	e := &problem.Error{Kind: problem.Runtime, Object: "root directory " + rootDir}
	if st.Uid == 0 {
		e.Err, e.Hint = errors.New("belongs to root: podrun must run as root to use it"), "use sudo"
	} else {
		e.Err, e.Hint = fmt.Errorf("belongs to user ID %d", st.Uid), "set another directory with --root-dir"
	}
	return e
}

// startKeeper starts podrun-rootless, in the namespaces of a process if found is not nil.
func startKeeper(ctx context.Context, r *Runtime, bin string, found *userns.Process) error {
	if found == nil {
		// Only this user can end them, and only from outside: in new namespaces, their IDs are not the user's.
		if err := userns.End(userns.Strays(rootless.ReadRecord(), []string{rootless.RunDir(), r.layout.Dir()})); err != nil {
			return &problem.Error{Kind: problem.Runtime, Object: "embedded runtime", Op: "end the containers of its earlier namespaces", Err: err}
		}
	}
	end := trace.Begin(ctx, "start podrun-rootless", "")
	o := userns.Options{RunDir: rootless.RunDir(), Bin: bin, Inside: found, AllowMetadata: r.settings.AllowMetadata}
	if record := rootless.ReadRecord(); found != nil && record != nil {
		// Existing pods have cgroups there, or none.
		o.Delegation = userns.Delegation{Cgroup: record.Cgroup, Reason: record.NoCgroups}
	} else {
		o.Delegation = userns.Delegate(ctx, o)
	}
	answered := faultpoint.Call("namespaces/start")
	ready, err := userns.Start(ctx, o)
	answered()
	end()
	if err == nil && ready.SingleID {
		r.Warn(problem.List{singleIDWarning(ready)})
	}
	if err == nil && found != nil {
		r.Warn(changedIDs(ctx, rootless.ReadRecord()))
	}
	if err == nil && found == nil && o.Delegation.Cgroup != "" && !rootless.Lingers() {
		r.Warn(problem.List{lingerWarning()})
	}
	return err
}

// lingerWarning warns that systemd ends the pods when it ends the user's manager, of which they are services.
func lingerWarning() problem.Problem {
	return problem.Problem{Object: "user " + rootless.UserName(),
		Message: "does not linger: systemd ends the pods when the last session of the user ends",
		Hint:    "run 'loginctl enable-linger'", Warning: true}
}

// changedIDs warns that the namespaces have former subordinate IDs.
func changedIDs(ctx context.Context, record *rootless.Record) problem.List {
	if record == nil {
		return nil
	}
	for kind, idMap := range map[subid.Kind]string{subid.Users: record.UIDMap, subid.Groups: record.GIDMap} {
		have, err := subid.Read(ctx, kind, rootless.UserName(), rootless.UID())
		if err == nil && rootless.ChangedIDs(idMap, have, rootless.UID()) {
			return problem.List{{
				Object:  "/etc/" + string(kind),
				Message: "the ranges of user " + rootless.UserName() + " have changed: pods still have the former IDs",
				Hint:    "run 'podrun runtime down'",
				Warning: true,
			}}
		}
	}
	return nil
}

// unpackForUser unpacks the archive, unless the programs that start the namespaces are there, and returns the
// directory of these programs. The start of containerd verifies all files.
func unpackForUser(ctx context.Context, r *Runtime) (string, error) {
	record, err := r.readChoice(ctx)
	if err != nil {
		return "", err
	}
	usable := func(digest string) bool { return embedded.VerifyPrograms(ctx, r.layout, digest) == nil }
	own := ""
	if r.archive != nil {
		own = r.archive.Digest
	}
	digest := embedded.PickDigest(embedded.ReadDaemon(ctx, r.layout), record, own, usable)
	switch {
	case digest == "":
		return "", withoutArchive()
	case digest == own && !usable(digest):
		if err := embedded.Unpack(ctx, r.layout, *r.archive); err != nil {
			return "", err
		}
	}
	return filepath.Join(r.layout.Unpacked(digest), "bin"), nil
}

// withoutArchive is the error for an ordinary user whose podrun contains no runtime.
func withoutArchive() error {
	return &problem.Error{Kind: problem.Runtime, Object: "podrun as user " + rootless.UserName(),
		Err:  errors.New("requires podrun-bundle, because this podrun binary contains no runtime, and the runtimes of this host are root's"),
		Hint: "use sudo"}
}

// singleIDWarning warns that newuidmap or a range of subordinate IDs is missing.
func singleIDWarning(ready userns.Ready) problem.Problem {
	name := rootless.UserName()
	why, _, _ := strings.Cut(ready.Hint, ":")
	if why == "" {
		why = ready.Reason
	}
	return problem.Problem{Object: "user " + name,
		Message: "has no subordinate IDs (" + why + "): containers have only the ID 0, and only images whose files all belong to root work",
		Warning: true,
		Hint:    "let root install newuidmap (the package uidmap or shadow-utils) and run 'usermod --add-subuids 100000-165535 --add-subgids 100000-165535 " + name + "', then run 'podrun runtime down'"}
}

// leave ends podrun-rootless and removes its files, unless another root directory's runtime uses its namespaces. This
// process keeps the namespaces until it exits.
func leave(ctx context.Context, l embedded.Layout) error {
	record := rootless.Inside()
	if record == nil || usedByOthers(l) {
		return nil
	}
	faultpoint.At("namespaces/end")
	if err := userns.End([]userns.Process{{PID: record.PID, StartTime: record.StartTime}}); err != nil {
		return &problem.Error{Kind: problem.Runtime, Object: "podrun-rootless", Op: "end it", Err: err}
	}
	faultpoint.At("namespaces/ended")
	if record.Cgroup != "" {
		if err := userns.Undelegate(ctx, rootless.RunDir()); err != nil {
			return &problem.Error{Kind: problem.Runtime, Object: "cgroup " + record.Cgroup, Op: "remove it", Err: err}
		}
	}
	return userns.RemoveFiles(rootless.RunDir(), record.Netns)
}

// usedByOthers reports whether a runtime of another root directory has state in the run directory.
func usedByOthers(l embedded.Layout) bool {
	dirs, _ := hostfile.Entries(rootless.RunDir(), "", "") // after an error, the entries that were read
	for _, dir := range dirs {
		if dir == l.State() || strings.Contains(filepath.Base(dir), ".") {
			continue
		}
		if _, err := os.Lstat(filepath.Join(dir, "daemon.json")); err == nil {
			return true
		}
	}
	return false
}

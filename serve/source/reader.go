package source

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
)

// Options are the inputs of a Reader.
type Options struct {
	Dirs []string // at least one; relative paths refer to the working directory
	// Remotes reads the URLs in Dirs; nil if there are none.
	Remotes *Remotes
	// Manifest specifies how files are read, as for other commands. The options Suffix,
	// RestartPolicy and ToEnd have no effect on directories.
	Manifest manifest.Options
	// Strict makes podrun refuse directories and files to which a user other than root, or a group
	// other than root's, can write. Without it, podrun prints a warning. podrun always refuses
	// files to which every user can write.
	Strict bool
	// Settle is how long a file that looks incomplete may take to become complete; 0 means 1 s.
	Settle time.Duration
	// If a read of a directory makes no progress for this time, for example on a dead NFS mount,
	// the directory is Unreachable. 0 means 10 s.
	Stall time.Duration
	// Verification makes podrun read only signed content; nil for none.
	Verification *Verification
	// Identities are the identities (Dir.Identity) of the directories that an earlier process has
	// read, by absolute path. With them, podrun distinguishes an empty mount point from an empty
	// directory.
	Identities map[string]Identity
	// IdentitiesLost is true if podrun cannot use the record of the identities. A directory that is empty in the
	// first pass is then Unreachable, because the pods of its files would otherwise be deleted.
	IdentitiesLost bool
}

// Reader reads directories repeatedly. Its methods must not be called concurrently.
type Reader struct {
	options Options
	last    *Snapshot
	busy    map[string]*pass
}

// pass is one read of a directory. If it hangs in the kernel, podrun starts no other pass for
// that directory until it returns.
type pass struct {
	cancel   context.CancelFunc
	progress atomic.Int64
	done     chan struct{}
	found    listing // valid once done is closed
}

var errStalled = errors.New("the file system does not answer")

// NewReader returns a Reader of directories. The directories need not exist. If a path is
// specified twice, the Reader reads it once. It returns an error if the working directory is
// unknown.
func NewReader(o Options) (*Reader, error) {
	if o.Settle <= 0 {
		o.Settle = time.Second
	}
	if o.Stall <= 0 {
		o.Stall = 10 * time.Second
	}
	var dirs []string
	for _, dir := range o.Dirs {
		abs, err := dir, error(nil)
		if !IsRemote(dir) {
			abs, err = filepath.Abs(dir)
		}
		if err != nil {
			return nil, fmt.Errorf("manifest directory %s: %w", printable(dir), err)
		}
		if !slices.Contains(dirs, abs) {
			dirs = append(dirs, abs)
		}
	}
	o.Dirs = dirs
	return &Reader{options: o, busy: map[string]*pass{}}, nil
}

// Dirs returns the absolute paths of the directories, each once, without URLs.
func (r *Reader) Dirs() []string {
	return slices.DeleteFunc(slices.Clone(r.options.Dirs), IsRemote)
}

// Read reads all directories once, in parallel. It does not read files again whose attributes
// are unchanged. Problems of directories and files are in the Snapshot. An error is the
// context's cause; the Reader is then unchanged.
func (r *Reader) Read(ctx context.Context) (*Snapshot, error) {
	passes := make([]*pass, len(r.options.Dirs))
	for i, dir := range r.options.Dirs {
		if !IsRemote(dir) {
			passes[i] = r.start(ctx, dir, r.before(i))
		}
	}
	found := make([]listing, len(passes))
	for i, p := range passes {
		if IsRemote(r.options.Dirs[i]) {
			continue
		}
		if p == nil {
			found[i].err = errStalled
			continue
		}
		if err := p.wait(ctx, r.options.Stall, &found[i]); err != nil {
			for _, p := range passes {
				if p != nil {
					p.cancel()
				}
			}
			return nil, fmt.Errorf("read the manifest directories: %w", err)
		}
	}
	rules := rules{now: time.Now(), settle: r.options.Settle, manifest: r.options.Manifest}
	next := &Snapshot{}
	var kept problem.List
	for i := range r.options.Dirs {
		d := r.decide(ctx, rules, i, found[i], &kept)
		if again := rules.readAgain(&d); again > 0 && (next.ReadAgain == 0 || again < next.ReadAgain) {
			next.ReadAgain = again
		}
		next.Dirs = append(next.Dirs, d)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("read the manifest directories: %w", context.Cause(ctx))
		}
	}
	next.News = append(news(r.last, next), kept...)
	r.last = next
	return next, nil
}

// decide determines the state of a source. If podrun could not store the content of a URL,
// decide appends a problem to unkept.
func (r *Reader) decide(ctx context.Context, rules rules, i int, found listing, unkept *problem.List) Dir {
	dir := r.options.Dirs[i]
	if !IsRemote(dir) {
		remembered := r.options.Identities[dir]
		if r.options.IdentitiesLost {
			remembered = unknownIdentity
		}
		found = r.options.Verification.verified(ctx, dir, r.before(i), found)
		return rules.dir(ctx, dir, r.before(i), remembered, found)
	}
	d, err := r.options.Remotes.read(ctx, rules, dir, r.before(i))
	if err != nil {
		*unkept = append(*unkept, problem.Problem{File: printable(dir), Reason: "SourceNotKept", Warning: true, Message: err.Error(),
			Hint: "podrun cannot start the pods of this source if this host boots without a network"})
	}
	return d
}

// before returns the state that the directory had after the previous pass; nil in the first
// pass.
func (r *Reader) before(i int) *Dir {
	if r.last == nil {
		return nil
	}
	return &r.last.Dirs[i]
}

// start begins to read a directory. It returns nil if an earlier pass for that directory still
// hangs.
func (r *Reader) start(ctx context.Context, dir string, before *Dir) *pass {
	if p := r.busy[dir]; p != nil {
		select {
		case <-p.done:
		default:
			return nil
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &pass{cancel: cancel, done: make(chan struct{})}
	r.busy[dir] = p
	known := unread(before)
	go func() {
		defer close(p.done)
		p.found = list(ctx, dir, known, r.options.Strict, r.options.Verification != nil, &p.progress)
	}()
	return p
}

// wait waits for a pass to finish, as long as it makes progress. The error is the context's
// cause.
func (p *pass) wait(ctx context.Context, stall time.Duration, found *listing) error {
	timer := time.NewTimer(stall)
	defer timer.Stop()
	for seen := p.progress.Load(); ; {
		select {
		case <-p.done:
			p.cancel()
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			*found = p.found
			p.found = listing{}
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
		}
		now := p.progress.Load()
		if now == seen {
			p.cancel()
			found.err = errStalled
			return nil
		}
		seen = now
		timer.Reset(stall)
	}
}

package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/identity"
	"github.com/podrun/podrun/problem"
)

// fileLock is a flock(2) on a file that says who holds it. The kernel frees it
// when its process ends, however it ends.
type fileLock struct {
	file *os.File
	// before is what the file said when the lock was taken: its last holder.
	before string
}

// A lock that is held is tried again after firstLockPoll, then more and more
// rarely: the node's lock is held for a few milliseconds, a pod's for longer.
const (
	firstLockPoll   = time.Millisecond
	slowestLockPoll = 10 * time.Millisecond
)

// lock takes the lock at path, waiting until ctx ends. Who writes "PID COMMAND"
// into it; waiting is called once, with the holder's words, if it has to wait.
func lock(ctx context.Context, path, who string, waiting func(holder string)) (*fileLock, error) {
	poll := firstLockPoll
	for said := false; ; poll = min(poll*3/2, slowestLockPoll) {
		held, err := tryLock(path, who)
		if held != nil || err != nil {
			return held, err
		}
		if !said && waiting != nil {
			waiting(shownHolder(holder(path)))
			said = true
		}
		select {
		case <-ctx.Done():
			return nil, lockWaitEnded(ctx, shownHolder(holder(path)))
		case <-time.After(poll):
		}
	}
}

// tryLock takes the lock at path if nobody holds it; nil if somebody does.
func tryLock(path, who string) (*fileLock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("make the directory of locks: %w", err)
	}
	f, err := lockFile(path)
	if f == nil || err != nil {
		return nil, err
	}
	before := holder(path)
	if err := writeHolder(f, who); err != nil {
		f.Close()
		return nil, err
	}
	return &fileLock{file: f, before: before}, nil
}

// lockFile opens and locks the file at path, or returns nil where another holds
// its lock. A file that its last holder removed between the opening and the
// locking is no lock any more: two processes would hold "the" lock on two files.
func lockFile(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open lock: %w", err)
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, nil
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		var stat unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &stat); err == nil && stat.Nlink > 0 {
			return f, nil
		}
		f.Close()
	}
}

// lockWaitEnded is the error of a wait that its context ended.
func lockWaitEnded(ctx context.Context, holder string) error {
	err := fmt.Errorf("wait for %s: %w", holder, context.Cause(ctx))
	if _, timeout := errors.AsType[errTimeout](err); timeout {
		return &problem.Error{Kind: problem.Deadline, Err: err, Hint: "give it longer by --timeout, or end the other podrun"}
	}
	return err
}

// writeHolder replaces what the file says. It does not truncate it to nothing
// first: ext4 writes a file out at its close when that was done (auto_da_alloc).
func writeHolder(f *os.File, who string) error {
	if _, err := f.WriteAt([]byte(who), 0); err != nil {
		return fmt.Errorf("write lock: %w", err)
	}
	if err := f.Truncate(int64(len(who))); err != nil {
		return fmt.Errorf("write lock: %w", err)
	}
	return nil
}

// holder says who holds the lock at path, as well as can be told.
func holder(path string) string {
	data, err := os.ReadFile(path)
	if who := strings.TrimSpace(string(data)); err == nil && who != "" {
		return who
	}
	return "another podrun"
}

// shownHolder leaves out the holder's invocation, which only podrun reads.
func shownHolder(who string) string {
	shown, _, _ := strings.Cut(who, " [")
	return shown
}

// podLock is the lock of one pod. It covers a sync, never a watch: while podrun
// waits for a container, others may work on the pod.
type podLock struct {
	engine *Engine
	path   string
	id     identity.Pod
	held   *fileLock
}

// lockPod takes the lock of a pod. Who waits says for whom.
func (e *Engine) lockPod(ctx context.Context, id identity.Pod) (*podLock, error) {
	l := e.podLock(id)
	_, err := l.take(ctx)
	return l, err
}

// podLock is the lock of a pod, not yet taken.
func (e *Engine) podLock(id identity.Pod) *podLock {
	return &podLock{engine: e, path: e.layout().PodLock(id), id: id}
}

// take locks, and tells whether another process held the lock since this one
// freed it.
func (l *podLock) take(ctx context.Context) (changed bool, err error) {
	held, err := lock(ctx, l.path, l.engine.who(), func(holder string) {
		l.engine.warn(problem.List{{Object: "pod " + l.id.String(), Message: "waiting for " + holder, Warning: true}})
	})
	if err != nil {
		return false, fmt.Errorf("pod %s: %w", l.id, err)
	}
	l.held = held
	return held.before != l.engine.who(), nil
}

// tryTake locks if nobody else holds the lock.
func (l *podLock) tryTake() (bool, error) {
	held, err := tryLock(l.path, l.engine.who())
	if err != nil {
		return false, fmt.Errorf("pod %s: %w", l.id, err)
	}
	l.held = held
	return held != nil, nil
}

// unlock frees the lock, if it is held.
func (l *podLock) unlock() {
	if l != nil {
		l.held.unlock()
		l.held = nil
	}
}

// forget frees the lock of a pod of which nothing is left, and removes its file.
func (l *podLock) forget() {
	if l != nil && l.held != nil {
		_ = os.Remove(l.path) // then it stays, and is swept another time
		l.unlock()
	}
}

// lockNode takes the node's lock, which covers admission, reservations and the
// control groups that pods share: nothing slow.
func (e *Engine) lockNode(ctx context.Context) (*fileLock, error) {
	return lock(ctx, e.layout().NodeLock(), e.who(), nil)
}

// underNodeLock does something while holding the node's lock.
func (e *Engine) underNodeLock(ctx context.Context, do func() error) error {
	l, err := e.lockNode(ctx)
	if err != nil {
		return err
	}
	defer l.unlock()
	return do()
}

// unlock frees the lock. The file stays.
func (l *fileLock) unlock() {
	if l != nil {
		l.file.Close()
	}
}

package cgroup

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/hostfile"
)

// If podrun stops waiting for a call that creates a sandbox, or is killed during this call, the runtime may still
// create the pod's cgroup and its parents after podrun has removed them. These directories do not have podrun's
// attributes, so later removals would keep them. Therefore podrun first records the directories. Each podrun
// process that acquires the lock soon afterwards sets the attributes of those that exist again. This was
// observed on a slow disk: containerd 1.6 ended a canceled call only after 11 s, and runc had created the cgroups.
//
// The record is best effort: if podrun cannot write or read it, a later removal misses these directories.

const (
	// recreatedWithin is the time for which the record applies after the last directory was added.
	// containerd ends the cleanup of a canceled call within 1 minute (util.DeferContext).
	recreatedWithin = 2 * time.Minute
	// maxRecreated is the maximum size of the record, in bytes: the cgroups of about 30 pods in eight
	// hierarchies. Each podrun process reads it.
	maxRecreated = 64 << 10
	// recordWithin is the maximum time for which podrun waits for the lock to write or apply the record.
	recordWithin = 2 * time.Second
)

// recreated returns the path of the record, which has the format of the record of recordCreating.
func (p Plan) recreated() string { return filepath.Join(p.Lock, "recreated") }

// RemoveUnanswered is Remove for a pod whose sandbox the runtime may still be creating.
func RemoveUnanswered(ctx context.Context, p Plan) error {
	short, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	_ = p.underLock(short, "record the cgroups that the runtime may create again", func() error {
		p.recordRecreated(short)
		return nil
	})
	return Remove(ctx, p)
}

// MarkRecreated sets podrun's attributes on the cgroups that a runtime has created again, so that
// ReadPodGroups returns them. If it cannot acquire the lock within recordWithin, it does nothing.
func MarkRecreated(ctx context.Context, c host.Cgroup, s nodeconfig.Settings) {
	p := Leftovers("", c, s)
	if !exists(p.recreated()) {
		return
	}
	short, cancel := context.WithTimeout(ctx, recordWithin)
	defer cancel()
	// Acquiring the lock sets the attributes.
	_ = p.underLock(short, "mark the cgroups that the runtime created again", func() error { return nil })
}

// recordRecreated adds the plan's directories that have podrun's attributes to the record. With the systemd
// driver, it adds only those of pods: if a kubelet has created a shared slice again, podrun must not stop
// this slice. If the record becomes too long, it removes the earlier directories. The caller must hold the lock.
func (p Plan) recordRecreated(ctx context.Context) {
	// If this read fails, the record may contain a directory twice.
	recorded, _ := hostfile.ReadNoFollow(ctx, p.recreated(), maxRecreated)
	text := p.recreatedLines(string(recorded))
	f, err := os.OpenFile(p.recreated(), os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return
	}
	size := info.Size()
	if size+int64(len(text)) > maxRecreated {
		if text, size = p.recreatedLines(""), 0; len(text) > maxRecreated || f.Truncate(0) != nil {
			return
		}
	}
	if _, err := f.WriteString(text); err != nil {
		// An incomplete line could name another directory.
		_ = f.Truncate(size)
		return
	}
	// The directories that were already recorded also apply from now on.
	now := unix.Timespec{Nsec: unix.UTIME_NOW}
	_ = unix.UtimesNanoAt(unix.AT_FDCWD, p.recreated(), []unix.Timespec{now, now}, unix.AT_SYMLINK_NOFOLLOW)
}

// recreatedLines returns the lines of the plan's directories that are not in the record.
func (p Plan) recreatedLines(recorded string) string {
	var b strings.Builder
	add := func(g Group, note markValues) {
		for _, dir := range p.hierarchies().dirs(g) {
			if lines := recordLines(note, dir); marked(dir) && !strings.Contains(recorded, lines) {
				b.WriteString(lines)
			}
		}
	}
	for _, g := range p.Pods {
		if !p.foreign(g) {
			add(g, markValues{milli: g.MilliCPU, rootDir: p.RootDir})
		}
	}
	if p.Driver != host.DriverSystemd {
		for _, g := range p.parents() {
			add(g, markValues{})
		}
	}
	return b.String()
}

// markRecreated sets the attributes of the recorded directories. It removes a record that no longer
// applies. The caller must hold the lock.
func (p Plan) markRecreated(ctx context.Context) {
	info, err := os.Lstat(p.recreated())
	if err != nil {
		return
	}
	if time.Since(info.ModTime()) > recreatedWithin {
		_ = os.Remove(p.recreated())
		return
	}
	if data, err := hostfile.ReadNoFollow(ctx, p.recreated(), maxRecreated); err == nil {
		_ = p.hierarchies().markRecorded(data)
	}
}

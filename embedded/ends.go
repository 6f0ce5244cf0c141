package embedded

import (
	"context"
	"time"
)

// DamagedStarts is the number of consecutive starts that must fail because of a damaged store before podrun replaces
// the store.
const DamagedStarts = 3

// Ends describes how the last starts of containerd since the host was booted ended. It is in
// Layout.Ends, on a tmpfs, so that it can be written if the root directory's file system is full
// or read-only.
type Ends struct {
	SchemaVersion int `json:"schemaVersion"`
	// PID and StartTime identify the daemon whose end was counted last.
	PID       int    `json:"pid,omitempty"`
	StartTime uint64 `json:"startTime,omitempty"`
	// Damaged is the number of consecutive starts that failed because of a damaged store.
	Damaged int `json:"damaged,omitempty"`
	// Damage is the last damage that was counted.
	Damage string `json:"damage,omitempty"`
	// Why explains why containerd does not run; it is empty once containerd has answered. At is the time at which
	// podrun found the reason.
	Why string    `json:"why,omitempty"`
	At  time.Time `json:"at,omitzero"`
}

// after returns the record after the end of a daemon, or of a start that failed before there was a
// process. Each daemon is counted once, and an end for another reason than a damaged store resets the
// count. It is pure.
func (e Ends) after(d Daemon, damage *Damage, why string, at time.Time) Ends {
	if d.PID != 0 && e.counted(d) {
		return e
	}
	if d.PID != 0 {
		e.PID, e.StartTime = d.PID, d.StartTime
	}
	e.Why, e.At = why, at
	if damage == nil {
		e.Damaged, e.Damage = 0, ""
	} else {
		e.Damaged, e.Damage = e.Damaged+1, damage.What
	}
	return e
}

func (e Ends) counted(d Daemon) bool { return e.PID == d.PID && e.StartTime == d.StartTime }

// ReadEnds returns how the last starts ended; the zero value if no start failed, or if the record
// cannot be read.
func ReadEnds(ctx context.Context, l Layout) Ends {
	e, _, _ := endsFile.Read(ctx, l.Ends()) // the record only counts failures
	return e
}

// write replaces the record. A failure loses only the count.
func (e Ends) write(l Layout) {
	e.SchemaVersion = schema
	_ = endsFile.Write(l.Ends(), e)
}

// NoteEnd records the end of a daemon that had answered, unless it is already recorded. It does nothing if d is nil
// or running. The layout's lock must be held.
func NoteEnd(ctx context.Context, l Layout, d *Daemon) {
	if d == nil || d.Alive() {
		return
	}
	before := ReadEnds(ctx, l)
	if before.counted(*d) {
		return
	}
	var damage *Damage
	if d.LogFrom != nil {
		damage = damageOf(ctx, l, *d.LogFrom)
	}
	before.after(*d, damage, whyEnded(damage), time.Now()).write(l)
}

func whyEnded(damage *Damage) string {
	if damage == nil {
		return "containerd exited"
	}
	return damage.Error()
}

// damageOf returns the damage that made a daemon exit; nil if there is none, or if this host prevents the use of the
// store.
func damageOf(ctx context.Context, l Layout, from int64) *Damage {
	damage := classifyLog(readSince(ctx, l, from))
	if damage == nil || probeStore(ctx, l) != nil {
		return nil
	}
	return damage
}

// NoteAnswer records that containerd answers. It keeps the number of damaged starts, because
// containerd may read the damaged part of its store later.
func NoteAnswer(ctx context.Context, l Layout) {
	if e := ReadEnds(ctx, l); e.Why != "" {
		e.Why, e.At = "", time.Time{}
		e.write(l)
	}
}

// stableAfter is how long a daemon must run before podrun considers its store usable.
const stableAfter = 10 * time.Minute

// NoteStable forgets damaged starts if a daemon has been running for long enough. The layout's lock is
// not required.
func NoteStable(ctx context.Context, l Layout, since time.Time) {
	if time.Since(since) < stableAfter {
		return
	}
	if e := ReadEnds(ctx, l); e.Damaged > 0 {
		Ends{}.write(l)
	}
}

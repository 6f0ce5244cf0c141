package store

import "slices"

// maxUnreleased is the maximum length of OwnerRecord.Unreleased.
const maxUnreleased = 1000

// NoteUnreleased records sandboxes whose networks may be only partly released. If podrun cannot write
// the record, or if another command owns the pod, it notes the sandboxes only in l. The lock must be
// held.
func (l *PodLock) NoteUnreleased(ids []string) {
	if len(ids) == 0 {
		return
	}
	all := withIDs(l.Unreleased, ids)
	// the caller reports that the stop failed
	_ = l.Update(func(r *OwnerRecord) { r.Unreleased = withIDs(r.Unreleased, ids) })
	l.Unreleased = all
}

// NoteReleased removes sandboxes from the record when no leftovers of their networks exist. The lock
// must be held.
func (l *PodLock) NoteReleased(ids []string) {
	without := func(list []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(id string) bool { return slices.Contains(ids, id) })
	}
	left := without(l.Unreleased)
	// If the update fails, the next owner checks these sandboxes again.
	_ = l.Update(func(r *OwnerRecord) { r.Unreleased = without(r.Unreleased) })
	l.Unreleased = left
}

// withIDs adds IDs to a list, without duplicates. If the list becomes too long, withIDs drops the
// first IDs.
func withIDs(list, ids []string) []string {
	out := slices.Clone(list)
	for _, id := range ids {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out[max(0, len(out)-maxUnreleased):]
}

package store

import "slices"

// maxUnreleased bounds OwnerRecord.Unreleased.
const maxUnreleased = 1000

// NoteUnreleased records sandboxes whose networks may be partially released. If the
// record cannot be written, or another command owns the pod, only this command knows. The
// caller holds the lock.
func (l *PodLock) NoteUnreleased(ids []string) {
	if len(ids) == 0 {
		return
	}
	all := withIDs(l.Unreleased, ids)
	_ = l.Update(func(r *OwnerRecord) { r.Unreleased = withIDs(r.Unreleased, ids) }) // the failed stop is reported
	l.Unreleased = all
}

// NoteReleased forgets sandboxes of which network plugins left nothing more. The lock
// must be held.
func (l *PodLock) NoteReleased(ids []string) {
	without := func(list []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(id string) bool { return slices.Contains(ids, id) })
	}
	left := without(l.Unreleased)
	_ = l.Update(func(r *OwnerRecord) { r.Unreleased = without(r.Unreleased) }) // they are looked for again then
	l.Unreleased = left
}

// withIDs adds IDs to a list, each once. The last ones are kept if there are too many.
func withIDs(list, ids []string) []string {
	out := slices.Clone(list)
	for _, id := range ids {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out[max(0, len(out)-maxUnreleased):]
}

package rig

import (
	"slices"
	"strings"

	"github.com/podrun/podrun/internal/event"
)

// Events returns the events so far.
func (h *Host) Events() []event.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.events)
}

// Warnings returns the warnings so far.
func (h *Host) Warnings() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.warnings)
}

// Forget forgets the events and warnings so far.
func (h *Host) Forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events, h.warnings = nil, nil
}

// Reasons lists the reasons of all events so far. If an event is about a container, its name
// follows: "Started app".
func (h *Host) Reasons() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for _, e := range h.events {
		name := ""
		if _, rest, ok := strings.Cut(e.FieldPath, "{"); ok {
			name = " " + strings.TrimSuffix(rest, "}")
		}
		out = append(out, e.Reason+name)
	}
	return out
}

// Emitted reports whether an event has the given reason (in the format of reasons) and text.
func (h *Host) Emitted(reason, text string) bool {
	all := h.Reasons()
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, e := range h.events {
		if all[i] == reason && strings.Contains(e.Message, text) {
			return true
		}
	}
	return false
}

// Warned counts the warnings that contain a text.
func (h *Host) Warned(text string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.warnings {
		if strings.Contains(w, text) {
			n++
		}
	}
	return n
}

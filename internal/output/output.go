// Package output limits how much of a program's output podrun keeps.
package output

import "bytes"

// Head keeps the first Limit bytes written to it and drops the rest, without blocking the
// writer. It does not embed the buffer, whose ReadFrom would keep everything.
type Head struct {
	Limit int
	// OnCut, if not nil, is called once, when the first byte is dropped.
	OnCut func()

	kept bytes.Buffer
	cut  bool
}

// Write never fails.
func (h *Head) Write(p []byte) (int, error) {
	kept := min(len(p), h.Limit-h.kept.Len())
	h.kept.Write(p[:kept])
	if kept < len(p) && !h.cut {
		h.cut = true
		if h.OnCut != nil {
			h.OnCut()
		}
	}
	return len(p), nil
}

// Bytes returns the bytes that were kept.
func (h *Head) Bytes() []byte { return h.kept.Bytes() }

// String returns the bytes that were kept, as a string.
func (h *Head) String() string { return h.kept.String() }

// Cut reports whether bytes were dropped.
func (h *Head) Cut() bool { return h.cut }

// Package output limits how much of a program's output podrun keeps.
package output

import "bytes"

// Head keeps the first Limit bytes that are written to it. It drops the rest without blocking the
// writer. Head does not embed the buffer, because the promoted method ReadFrom of the buffer would
// keep everything.
type Head struct {
	Limit int
	// If OnCut is not nil, Head calls it once, when it drops the first byte.
	OnCut func()

	kept bytes.Buffer
	cut  bool
}

// Write never returns an error.
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

// Bytes returns the bytes that Head has kept.
func (h *Head) Bytes() []byte { return h.kept.Bytes() }

// String returns the bytes that Head has kept, as a string.
func (h *Head) String() string { return h.kept.String() }

// Cut reports whether Head has dropped bytes.
func (h *Head) Cut() bool { return h.cut }

// Package output bounds what podrun keeps of the output of programs that it runs.
package output

import "bytes"

// Head keeps the first bytes that are written, up to Limit, and drops the others. A program
// that writes more is not blocked. The buffer is not embedded: its ReadFrom would keep all.
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

// Bytes are those that were kept.
func (h *Head) Bytes() []byte { return h.kept.Bytes() }

// String is Bytes as text.
func (h *Head) String() string { return h.kept.String() }

// Cut reports whether bytes were dropped.
func (h *Head) Cut() bool { return h.cut }

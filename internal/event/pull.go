package event

import (
	"fmt"
	"time"
)

// PullProgress is the reason of an event that reports the progress of a pull. The kubelet has
// no such event. podrun prints it but does not store it.
const PullProgress = "PullProgress"

// PullState is the state of a pull.
type PullState string

// The states of a pull.
const (
	PullWaits PullState = "waiting" // The pull waits for the registry.
	// The runtime receives bytes, or does not report progress.
	Pulling PullState = "pulling"
	// The runtime has received all bytes.
	PullUnpacks PullState = "unpacking"
	// The pull has ended, with or without success. Another event reports the result.
	PullEnded PullState = "ended"
)

// Pull is the progress of one image pull. The numbers of bytes refer to the transferred data, which
// is compressed.
type Pull struct {
	Image   string        `json:"image"` // as written in the manifest
	State   PullState     `json:"state"`
	Bytes   int64         `json:"bytes,omitempty"`
	Total   int64         `json:"total,omitempty"`          // size of the image; 0 if unknown
	Rate    int64         `json:"bytesPerSecond,omitempty"` // average over the last seconds
	Elapsed time.Duration `json:"elapsed,omitempty"`        // JSON number of nanoseconds
}

// String returns the progress as a text such as "3.1 of 12.5 MB (24%), 1.0 MB/s".
func (p Pull) String() string {
	switch {
	case p.State == PullUnpacks:
		return "unpacking " + amount(p.Total)
	case p.State == PullWaits:
		return fmt.Sprintf("waiting for the registry, %s", p.Elapsed.Truncate(time.Second))
	case p.State == PullEnded:
		return "ended"
	case p.Total == 0:
		return fmt.Sprintf("pulling, %s", p.Elapsed.Truncate(time.Second))
	}
	return fmt.Sprintf("%.1f of %.1f MB (%d%%), %s/s", float64(p.Bytes)/1e6, float64(p.Total)/1e6, p.Percent(), amount(p.Rate))
}

// amount formats a number of bytes with its unit.
func amount(n int64) string {
	if n < 1e6 {
		return fmt.Sprintf("%.0f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

// Percent returns the pulled percentage of the image, from 0 to 100. It returns 0 if the image's
// size is unknown.
func (p Pull) Percent() int64 {
	if p.Total <= 0 {
		return 0
	}
	return p.Bytes * 100 / p.Total
}

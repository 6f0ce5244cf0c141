// Package imagegc selects the unused images to remove, by the kubelet's rules
// (pkg/kubelet/images/image_gc_manager.go, v1.36): the least recently used ones when the
// usage of the disk has reached a threshold, and those that have not been used for a
// given time. It is pure.
package imagegc

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
)

// The kubelet's reasons of the node's events (pkg/kubelet/events).
const (
	ReasonFreeDiskSpaceFailed = "FreeDiskSpaceFailed"
	ReasonImageGCFailed       = "ImageGCFailed"
)

// Image is an image that the runtime has.
type Image struct {
	ID   string
	Name string // for messages
	Size int64  // bytes
	// InUse says that a container or a pod uses it, or may; or that the runtime keeps
	// it (pinned).
	InUse bool
}

// Record is what is known of an image's use.
type Record struct {
	Detected time.Time `json:"detected"`      // when it was seen first
	Used     time.Time `json:"used,omitzero"` // when it was seen in use last; zero for never
}

// since is from when on the image has not been used.
func (r Record) since() time.Time {
	if r.Used.After(r.Detected) {
		return r.Used
	}
	return r.Detected
}

// Records are what is known of images, by ID. They marshal to stable JSON.
type Records struct {
	Images map[string]Record `json:"images"`
	Seen   time.Time         `json:"seen"` // when images were observed last
}

// Observe takes in which images there are, and which of them are in use. Images that
// are gone are forgotten. The time since the last observation does not count if it is
// longer than gap: no process saw which images were used. The records are new.
func Observe(r Records, images []Image, gap time.Duration, now time.Time) Records {
	var unseen time.Duration
	if passed := now.Sub(r.Seen); !r.Seen.IsZero() && passed > gap {
		unseen = passed
	}
	out := Records{Images: make(map[string]Record, len(images)), Seen: now}
	for _, i := range images {
		one, known := r.Images[i.ID]
		switch {
		case !known || one.Detected.After(now): // the clock was set back
			one = Record{Detected: now}
		case unseen > 0:
			one.Detected = one.Detected.Add(unseen)
			if !one.Used.IsZero() {
				one.Used = one.Used.Add(unseen)
			}
		}
		if i.InUse {
			one.Used = now
		}
		out.Images[i.ID] = one
	}
	return out
}

// Policy is when images are removed.
type Policy struct {
	High, Low      int           // how full the disk of images is, in percent
	MinAge, MaxAge time.Duration // MaxAge 0 is none
}

// PolicyOf is the policy of a node.
func PolicyOf(s nodeconfig.Settings) Policy {
	return Policy{High: int(s.ImageGCHighThresholdPercent), Low: int(s.ImageGCLowThresholdPercent), MinAge: s.ImageMinimumGCAge, MaxAge: s.ImageMaximumGCAge}
}

// Off reports whether a policy removes nothing, as in the kubelet.
func (p Policy) Off() bool { return p.High == 100 && p.MaxAge == 0 }

// Unused lists the images that may be removed for their disk, in the order in which
// they are: used longest ago, then seen first longest ago. Those that were first seen
// less than MinAge ago may be about to be used.
func Unused(images []Image, r Records, p Policy, now time.Time) []Image {
	out := unused(images, r)
	return slices.DeleteFunc(out, func(i Image) bool { return now.Sub(r.Images[i.ID].Detected) < p.MinAge })
}

// Expired lists the images that were not used for MaxAge.
func Expired(images []Image, r Records, p Policy, now time.Time) []Image {
	if p.MaxAge == 0 {
		return nil
	}
	return slices.DeleteFunc(unused(images, r), func(i Image) bool { return now.Sub(r.Images[i.ID].since()) <= p.MaxAge })
}

func unused(images []Image, r Records) []Image {
	out := slices.DeleteFunc(slices.Clone(images), func(i Image) bool {
		_, known := r.Images[i.ID]
		return i.InUse || !known
	})
	slices.SortFunc(out, func(a, b Image) int {
		x, y := r.Images[a.ID], r.Images[b.ID]
		return cmp.Or(x.Used.Compare(y.Used), x.Detected.Compare(y.Detected), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// Surplus is how many bytes are to be freed of the disk of images: down to the low
// threshold once it is as full as the high one, else 0. It is also 0 where the disk is
// not known.
func Surplus(p Policy, fs host.Filesystem) int64 {
	if fs.CapacityBytes <= 0 || usedPercent(fs) < int64(p.High) {
		return 0
	}
	return max(0, fs.CapacityBytes*int64(100-p.Low)/100-available(fs))
}

func available(fs host.Filesystem) int64 { return min(fs.AvailableBytes, fs.CapacityBytes) }

func usedPercent(fs host.Filesystem) int64 { return 100 - available(fs)*100/fs.CapacityBytes }

// Insufficient is the message of a disk of which less could be freed than wanted.
func Insufficient(fs host.Filesystem, freed int64) string {
	return fmt.Sprintf("Insufficient free disk space on the node's image filesystem (%d%% of %s used). Failed to free sufficient space by deleting unused images (freed %d bytes). "+
		"Investigate disk usage, as it could be used by active images, logs, volumes, or other data.", usedPercent(fs), size(fs.CapacityBytes), freed)
}

// size is a number of bytes as the kubelet writes it here.
func size(n int64) string {
	units := []string{"KiB", "MiB", "GiB", "TiB"}
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n)/1024, 0
	for f >= 1024 && unit < len(units)-1 {
		f, unit = f/1024, unit+1
	}
	return fmt.Sprintf("%.1f %s", f, units[unit])
}

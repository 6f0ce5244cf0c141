// Package imagegc selects the unused images to remove, by the kubelet's rules
// (pkg/kubelet/images/image_gc_manager.go, v1.36). If the disk usage has reached a threshold, it
// selects the least recently used images. Independently of the disk usage, it selects images that
// have not been used for a given time. It is pure.
package imagegc

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
)

// The kubelet's event reasons for images (pkg/kubelet/events).
const (
	ReasonFreeDiskSpaceFailed = "FreeDiskSpaceFailed"
	ReasonImageGCFailed       = "ImageGCFailed"
)

// Image is an image that the runtime has.
type Image struct {
	ID   string
	Name string // name of the image for messages
	Size int64  // bytes
	// InUse is true if a container or a pod uses the image, or may use it, or if the
	// runtime keeps it (pinned).
	InUse bool
}

// Record describes the known use of an image.
type Record struct {
	Detected time.Time `json:"detected"`      // time of the first observation
	Used     time.Time `json:"used,omitzero"` // time of the last observation in use; zero if it was never in use
}

// since returns the time at which the image was last used or, if it was never used, first observed.
func (r Record) since() time.Time {
	if r.Used.After(r.Detected) {
		return r.Used
	}
	return r.Detected
}

// Records contains the known use of images, by ID. It marshals to stable JSON.
type Records struct {
	Images map[string]Record `json:"images"`
	Seen   time.Time         `json:"seen"` // time of the last observation
}

// Observe returns new records that include an observation of all images. Observe drops images that
// the runtime no longer has. If more than gap has passed since the previous observation, podrun
// does not know which images were used in between, so this time does not count as unused.
func Observe(r Records, images []Image, gap time.Duration, now time.Time) Records {
	var unseen time.Duration
	if passed := now.Sub(r.Seen); !r.Seen.IsZero() && passed > gap {
		unseen = passed
	}
	out := Records{Images: make(map[string]Record, len(images)), Seen: now}
	for _, i := range images {
		one, known := r.Images[i.ID]
		switch {
		// The clock was set back.
		case !known || one.Detected.After(now):
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

// Policy specifies when podrun removes images.
type Policy struct {
	High, Low      int           // usage of the images' disk in percent
	MinAge, MaxAge time.Duration // a MaxAge of 0 means no limit
}

// PolicyOf returns the policy in a node's settings.
func PolicyOf(s nodeconfig.Settings) Policy {
	return Policy{
		High:   int(s.ImageGCHighThresholdPercent),
		Low:    int(s.ImageGCLowThresholdPercent),
		MinAge: s.ImageMinimumGCAge,
		MaxAge: s.ImageMaximumGCAge,
	}
}

// Off reports whether a policy turns off the removal of images, as in the kubelet.
func (p Policy) Off() bool { return p.High == 100 && p.MaxAge == 0 }

// Unused returns the images that podrun may remove to free disk space, in the order of removal. The
// least recently used image is first. Of two images that were last used at the same time, the one
// that was detected earlier is first. It omits images that were first observed less than MinAge
// ago, because a pod may be about to use them.
func Unused(images []Image, r Records, p Policy, now time.Time) []Image {
	out := unused(images, r)
	return slices.DeleteFunc(out, func(i Image) bool { return now.Sub(r.Images[i.ID].Detected) < p.MinAge })
}

// Expired returns the images that no pod has used for MaxAge.
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

// Surplus returns the number of bytes that podrun must free on the images' disk. If the usage has
// reached the high threshold, these are the bytes above the low threshold. Otherwise, or if the
// disk is unknown, it returns 0.
func Surplus(p Policy, fs host.Filesystem) int64 {
	if fs.CapacityBytes <= 0 || usedPercent(fs) < int64(p.High) {
		return 0
	}
	return max(0, fs.CapacityBytes*int64(100-p.Low)/100-available(fs))
}

func available(fs host.Filesystem) int64 { return min(fs.AvailableBytes, fs.CapacityBytes) }

func usedPercent(fs host.Filesystem) int64 { return 100 - available(fs)*100/fs.CapacityBytes }

// Insufficient returns the message for a disk on which podrun could free less space than
// required.
func Insufficient(fs host.Filesystem, freed int64) string {
	return fmt.Sprintf("Insufficient free disk space on the node's image filesystem (%d%% of %s used). Failed to free sufficient space by deleting unused images (freed %d bytes). "+
		"Investigate disk usage, as it could be used by active images, logs, volumes, or other data.", usedPercent(fs), size(fs.CapacityBytes), freed)
}

// size formats a number of bytes as the kubelet does in these messages.
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

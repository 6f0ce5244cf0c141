package node

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/imagepull/auth"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/run/store"
)

// Puller pulls images. All pods that use it share its limits. It writes events to the journals of the
// pods. It is safe for concurrent use.
type Puller struct {
	*imagepull.Puller
	journals sync.Map // by pod UID
}

// Journal registers the journal that receives the events of its pod.
func (p *Puller) Journal(j *store.Journal) { p.journals.Store(j.Pod.UID, j) }

// Forget removes a journal and the puller's state of the pod, unless another worker has since
// registered another journal for the pod.
func (p *Puller) Forget(j *store.Journal) {
	if p.journals.CompareAndDelete(j.Pod.UID, j) {
		p.Puller.Forget(j.Pod.UID)
	}
}

// NewPuller returns n.Puller or, if it is nil, a new puller for a command.
func (n *Node) NewPuller() *Puller {
	if n.Puller != nil {
		return n.Puller
	}
	p := &Puller{}
	warn := n.SendWarnings
	if n.Unattended {
		// no user waits, and podrun logs the events
		warn = nil
	}
	var approve func(context.Context, imagepull.Image, string) error
	if n.ImagesVerified() {
		approve = n.approve
	}
	p.Puller = imagepull.NewPuller(n.Client, imagepull.Options{
		Approve:     approve,
		Repair:      n.RepairImages,
		MaxParallel: int(n.Settings.MaxParallelImagePulls),
		QPS:         float64(n.Settings.RegistryPullQPS), Burst: int(n.Settings.RegistryBurst),
		RetryAlways: n.Settings.RetryPullAlways, Attended: n.Attended, Timeout: n.pullLimit(),
		BackOffDir: n.Layout().ImageBackOff(), Auth: n.keychain().Find,
		RecordDir: n.imageRecords(), Verify: imagepull.Verification{Policy: n.Settings.PullVerification, Allowlist: n.Settings.PullAllowlist},
		Pulled: n.Observer.Pulled, Warn: warn, Progress: n.Progress, StallTimeout: n.Settings.PullStall,
		Emit: func(ev event.Event) {
			if j, ok := p.journals.Load(ev.UID); ok {
				j.(*store.Journal).Emit(ev)
			} else if ev.UID == "" && n.Emit != nil {
				// the image belongs to no pod
				n.Emit(ev)
			}
		},
	})
	return p
}

// pullLimit returns the timeout for pulling an image; 0 means no timeout.
func (n *Node) pullLimit() time.Duration {
	if n.Settings.PullTimeout != nil {
		return *n.Settings.PullTimeout
	}
	return n.PullLimit
}

// imageRecords returns the directory for records of image credentials (KEP-2535). It returns "" if
// the feature gate is off.
func (n *Node) imageRecords() string {
	if !n.Settings.Gate(gateSecretPulled, true) {
		return ""
	}
	return n.Layout().ImageRecords()
}

// gateSecretPulled is the feature gate of KEP-2535, which is enabled by default since v1.35.
const gateSecretPulled = "KubeletEnsureSecretPulledImages"

// keychain returns the image credentials according to this node's settings.
func (n *Node) keychain() *auth.Keychain {
	files, legacy := auth.HostFiles(n.Settings.RootDir, os.Getenv("DOCKER_CONFIG"), os.Getenv("HOME"))
	return &auth.Keychain{AuthFile: n.Settings.RegistryAuth, Files: files, Legacy: legacy,
		ProviderConfig: n.Settings.ProviderConfig, ProviderDir: n.Settings.ProviderBinDir}
}

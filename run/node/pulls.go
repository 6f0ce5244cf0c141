package node

import (
	"os"
	"sync"
	"time"

	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/imagepull/auth"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/run/store"
)

// Puller pulls images, within limits that all its pods share. Events go to the
// journals of their pods. It is safe for concurrent use.
type Puller struct {
	*imagepull.Puller
	journals sync.Map // by UID
}

// Journal sends the events of the journal's pod to it.
func (p *Puller) Journal(j *store.Journal) { p.journals.Store(j.Pod.UID, j) }

// Forget discards a journal and the state of its pod, unless the pod has another journal,
// which belongs to another worker.
func (p *Puller) Forget(j *store.Journal) {
	if p.journals.CompareAndDelete(j.Pod.UID, j) {
		p.Puller.Forget(j.Pod.UID)
	}
}

// NewPuller returns n.Puller, or, where that is nil, a new puller for a command.
func (n *Node) NewPuller() *Puller {
	if n.Puller != nil {
		return n.Puller
	}
	p := &Puller{}
	p.Puller = imagepull.NewPuller(n.Client, imagepull.Options{
		MaxParallel: int(n.Settings.MaxParallelImagePulls),
		QPS:         float64(n.Settings.RegistryPullQPS), Burst: int(n.Settings.RegistryBurst),
		RetryAlways: n.Settings.RetryPullAlways, Timeout: n.pullLimit(),
		BackOffDir: n.Layout().ImageBackOff(), Auth: n.keychain().Find,
		RecordDir: n.imageRecords(), Verify: imagepull.Verification{Policy: n.Settings.PullVerification, Allowlist: n.Settings.PullAllowlist},
		Pulled: n.Observer.Pulled, Progress: n.Progress, StallTimeout: n.Settings.PullStall,
		Emit: func(ev event.Event) {
			if j, ok := p.journals.Load(ev.UID); ok {
				j.(*store.Journal).Emit(ev)
			} else if ev.UID == "" && n.Emit != nil {
				n.Emit(ev) // of an image that is no pod's
			}
		},
	})
	return p
}

// pullLimit bounds the pull of an image; 0: no limit.
func (n *Node) pullLimit() time.Duration {
	if n.Settings.PullTimeout != nil {
		return *n.Settings.PullTimeout
	}
	return n.PullLimit
}

// imageRecords is the directory of the records of image credentials (KEP-2535); "" if the
// feature gate is off.
func (n *Node) imageRecords() string {
	if !n.Settings.Gate(gateSecretPulled, true) {
		return ""
	}
	return n.Layout().ImageRecords()
}

// gateSecretPulled is KEP-2535's, which is on since v1.35.
const gateSecretPulled = "KubeletEnsureSecretPulledImages"

// keychain finds the credentials for images by this node's settings.
func (n *Node) keychain() *auth.Keychain {
	files, legacy := auth.HostFiles(n.Settings.RootDir, os.Getenv("DOCKER_CONFIG"), os.Getenv("HOME"))
	return &auth.Keychain{AuthFile: n.Settings.RegistryAuth, Files: files, Legacy: legacy,
		ProviderConfig: n.Settings.ProviderConfig, ProviderDir: n.Settings.ProviderBinDir}
}

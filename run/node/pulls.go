package node

import (
	"os"

	"github.com/podrun/podrun/event"
	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/imagepull/auth"
	"github.com/podrun/podrun/run/store"
)

// NewPuller makes the puller of a command, whose events go to the journals of
// their pods, by UID. The map must not change once pulls have begun.
func (n *Node) NewPuller(journals map[string]*store.Journal) *imagepull.Puller {
	return imagepull.NewPuller(n.Client, imagepull.Options{
		MaxParallel: int(n.Settings.MaxParallelImagePulls),
		QPS:         float64(n.Settings.RegistryPullQPS), Burst: int(n.Settings.RegistryBurst),
		RetryAlways: n.Settings.RetryPullAlways, Timeout: n.Settings.PullTimeout,
		BackOffDir: n.Layout().ImageBackOff(), Auth: n.keychain().Find,
		RecordDir: n.imageRecords(), Verify: imagepull.Verification{Policy: n.Settings.PullVerification, Allowlist: n.Settings.PullAllowlist},
		Progress: n.Progress, StallTimeout: n.Settings.PullStall,
		Emit: func(ev event.Event) {
			if j := journals[ev.UID]; j != nil {
				j.Emit(ev)
			} else if ev.UID == "" && n.Emit != nil {
				n.Emit(ev) // of an image that is no pod's
			}
		},
	})
}

// imageRecords is where it is kept who pulled which image; "" where the feature
// gate is off.
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

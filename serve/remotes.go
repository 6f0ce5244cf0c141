package serve

import (
	"context"
	"slices"
	"time"

	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve/source"
)

// RemoteOptions are the options for reading sources that are URLs.
type RemoteOptions struct {
	Every      time.Duration // 0 means 20 s
	HeaderFile string        // file with headers for each request; "" for none
	Trust      []byte        // PEM certificates in addition to the system's, for tests
}

// verification returns how podrun verifies sources; nil if it does not.
func verification(e *run.Node, o Options) *source.Verification {
	if o.SourceVerify == "" {
		return nil
	}
	layout := e.Layout()
	return &source.Verification{Signers: o.SourceVerify,
		ReadAccepted: func(name string) (source.Accepted, error) {
			c, fault, err := store.ReadAccepted(context.Background(), layout, name)
			if err == nil && fault != nil {
				e.WarnOnce(fault.Warning())
			}
			return source.Accepted{Serial: c.Serial, Sums: c.Sums}, err
		},
		WriteAccepted: func(name string, a source.Accepted) error {
			return store.WriteAccepted(layout, name, store.AcceptedContent{Source: source.Shown(name), Serial: a.Serial, Sums: a.Sums})
		}}
}

// IsRemote reports whether a source is a URL, and not a directory.
func IsRemote(name string) bool { return source.IsRemote(name) }

// CheckRemote checks the URL of a source (source.CheckRemote).
func CheckRemote(name string) error { return source.CheckRemote(name) }

// IsManifestName reports whether serve reads a file of this name (source.IsManifestName).
func IsManifestName(name string) bool { return source.IsManifestName(name) }

// Shown returns the name of a source without parts that may be credentials.
func Shown(name string) string { return source.Shown(name) }

// newRemotes loads the stored state of the URLs among the sources.
func newRemotes(ctx context.Context, e *run.Node, o Options) (*source.Remotes, error) {
	layout := e.Layout()
	var urls []string
	for _, name := range o.Dirs {
		if source.IsRemote(name) && !slices.Contains(urls, name) {
			urls = append(urls, name)
		}
	}
	inMemory := e.Settings.Secrets == nodeconfig.SecretsInMemory
	if inMemory {
		if err := store.MoveRemoteCopies(layout); err != nil {
			e.SendWarnings(problem.List{problem.WarningOf(err)})
		}
	}
	return source.NewRemotes(ctx, source.RemoteOptions{
		URLs:         urls,
		Verification: verification(e, o),
		Every:        o.Remote.Every,
		HeaderFile:   o.Remote.HeaderFile,
		Trust:        o.Remote.Trust,
		ReadCopy:     func(name string) ([]byte, error) { return store.ReadRemoteCopy(layout, name) },
		WriteCopy:    func(name string, data []byte) error { return store.WriteRemoteCopy(layout, name, data, inMemory) },
	})
}

package cli

import (
	"time"

	"github.com/spf13/cobra"
)

// DefaultTimeout is the default of --timeout.
const DefaultTimeout = 10 * time.Minute

// The values of --dry-run, as in kubectl.
const (
	DryNone   = "none"
	DryClient = "client" // the manifest alone
	DryServer = "server" // the manifest and this host: podrun plan
)

// AddQuiet adds -q to a command that prints events.
func (a *App) AddQuiet(c *cobra.Command) {
	c.Flags().BoolVarP(&a.Quiet, "quiet", "q", false, "do not print events")
}

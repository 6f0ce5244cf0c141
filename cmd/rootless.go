package cmd

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/internal/rootless"
	"github.com/podrun/podrun/run/ownruntime"
)

// startingCommands are the commands that start the embedded runtime (ownruntime.Starts), or need it to remove its
// files.
var startingCommands = []string{"apply", "run", "serve", "scale", "image pull", "image load", "image save",
	"runtime up", "runtime down", "runtime upgrade"}

// enter makes the command of an ordinary user enter the namespaces of podrun-rootless. It is called before the command
// reads its input, because the command then begins again.
func enter(a *cli.App, c *cobra.Command) error {
	if !rootless.User() {
		return nil
	}
	settings, _, err := a.Settings.Settings()
	if err != nil {
		return err
	}
	_, path, _ := strings.Cut(c.CommandPath(), " ")
	rt := a.Runtime(a.Renderer(), settings)
	if endpoint := rt.External(c.Context()); endpoint != "" && !ownruntime.IsOfUser(endpoint) {
		// The command reads and validates its input before it reports that it requires root.
		return nil
	}
	return ownruntime.Enter(c.Context(), rt, slices.Contains(startingCommands, path) && (path != "runtime down" || ownruntime.Unpacked(rt)))
}

package cmd

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/shellword"
	"github.com/podrun/podrun/run/ownruntime"
)

// The paths in hints for a command line without settings.
const (
	usualSocket   = "/run/containerd/containerd.sock"
	usualServeDir = "/var/lib/podrun/serve/"
)

// fillPaths replaces SOCKET in a hint by the socket of the runtime that podrun uses, and the default path of the
// supervisor's directory by its actual path.
func fillPaths(ctx context.Context, a *cli.App, root *cobra.Command, given []string, e *problem.Error) {
	if !strings.Contains(e.Hint, "SOCKET") && !strings.Contains(e.Hint, usualServeDir) {
		return
	}
	socket, dir := usualSocket, usualServeDir
	if settings, err := commandSettings(ctx, a, root, given); err == nil {
		dir = shellword.Quote(string(settings.Layout().Serve()) + "/")
		if strings.Contains(e.Hint, "SOCKET") {
			socket = runtimeSocket(ctx, settings)
		}
	}
	e.Hint = strings.ReplaceAll(strings.ReplaceAll(e.Hint, "SOCKET", shellword.Quote(socket)), usualServeDir, dir)
}

// commandSettings returns the settings of a command line. It reads the command line itself, because cobra does not
// parse the line of a command that podrun does not have.
func commandSettings(ctx context.Context, a *cli.App, root *cobra.Command, given []string) (nodeconfig.Settings, error) {
	if a.Settings.Merged == nil {
		a.Settings.Ctx = ctx
		flags := root.PersistentFlags()
		flags.ParseErrorsAllowlist.UnknownFlags = true
		if err := errors.Join(flags.Parse(given), a.Settings.SetFromEnv()); err != nil {
			return nodeconfig.Settings{}, err
		}
	}
	settings, _, err := a.Settings.Settings()
	return settings, err
}

// runtimeSocket returns the socket of the runtime that podrun uses. If it is unknown, or that of CRI-O,
// runtimeSocket returns containerd's default socket.
func runtimeSocket(ctx context.Context, settings nodeconfig.Settings) string {
	status, err := ownruntime.New(settings, ownruntime.Options{}).Status(ctx)
	if err != nil {
		return usualSocket
	}
	path, err := cri.SocketPath(status.Endpoint)
	if err != nil || strings.Contains(path, "crio") {
		return usualSocket
	}
	return path
}

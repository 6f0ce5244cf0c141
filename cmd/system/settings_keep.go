package system

import (
	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/internal/problem"
)

// keepSettings is keep for a supervisor, whose next start may need the stored settings.
func keepSettings(a *cli.App, r *cli.Renderer) {
	if err := a.Settings.Keep(); err != nil {
		r.Warn(problem.List{problem.WarningOf(err)})
	}
}

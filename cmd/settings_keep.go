package cmd

import (
	"github.com/podrun/podrun/internal/problem"
)

// keepSettings is keep for a supervisor, whose next start may need the stored settings.
func (a *app) keepSettings(r *renderer) {
	if err := a.settings.Keep(); err != nil {
		r.warn(problem.List{problem.WarningOf(err)})
	}
}

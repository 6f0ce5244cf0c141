package prepare

import (
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lifecycle"
)

// watchesUpdate reports whether podrun may roll back the update to a definition. The pod then keeps its UID and, until the
// new definition is on disk, its checkpoint, so that a killed podrun process never leaves the host without a definition.
func watchesUpdate(p manifest.Pod, s nodeconfig.Settings) bool {
	deadline, err := manifest.ProgressDeadline(p.Object, p.Definition, s.ProgressDeadline)
	return err == nil && deadline > 0
}

// planProgress sets the limits of the update to this definition, from the annotation or, if there is none, from the settings.
func (p *Plan) planProgress(d *manifest.Definition, s nodeconfig.Settings) problem.List {
	deadline, err := manifest.ProgressDeadline(p.Pod, d, s.ProgressDeadline)
	if err != nil {
		return problem.List{{Field: "metadata.annotations[" + identity.AnnotationProgressDeadline + "]", Reason: "ProgressDeadline", Message: err.Error()}}
	}
	p.Progress = lifecycle.NewProgressLimits(deadline, d.MinReady())
	return nil
}

package pod

import (
	"fmt"
	"os"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/store"
)

// CheckManaged returns an error if podrun did not create all sandboxes of the pod.
func (p *Pod) CheckManaged() error {
	for _, sb := range p.Observed.Sandboxes {
		if sb.RootDir != "" {
			return &problem.Error{Kind: problem.Refused, Object: "pod " + p.Plan.ID.String(),
				Err:  fmt.Errorf("its sandbox %s belongs to another root directory", observe.ShortID(sb.ID)),
				Hint: "use --root-dir " + sb.RootDir}
		}
		if !sb.Managed {
			return &problem.Error{Kind: problem.Refused, Object: "pod " + p.Plan.ID.String(),
				Err:  fmt.Errorf("its sandbox %s was not created by podrun", observe.ShortID(sb.ID)),
				Hint: "use the tool that created it"}
		}
	}
	return nil
}

// OpenJournal opens the pod's journal, if the pod has a directory.
func (p *Pod) OpenJournal() error {
	if _, err := os.Stat(string(p.Plan.Layout.Pod(p.Plan.ID.UID))); err != nil {
		return nil
	}
	if err := p.Journal.Open(p.Plan.Layout); err != nil && !store.CannotWrite(err) {
		return err
	}
	return nil
}

package run

import (
	"context"
	"errors"

	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/problem"
	"github.com/podrun/podrun/run/store"
)

// Restart runs pods again from their checkpoints: what is left of them goes
// first, with its grace period, and they start anew.
func (e *Engine) Restart(ctx context.Context, pods []Known, o ApplyOptions) ([]Result, error) {
	objects, err := e.checkpointed(pods)
	if err != nil {
		return nil, err
	}
	o.Force = true
	return e.Apply(ctx, objects, o)
}

// checkpointed are the pods as objects of a manifest.
func (e *Engine) checkpointed(pods []Known) (*manifest.Objects, error) {
	all := &manifest.Objects{}
	for _, k := range pods {
		c, err := store.ReadCheckpoint(e.Layout(), k.ID.UID)
		if err != nil {
			return nil, err
		}
		if c == nil {
			return nil, &problem.Error{Kind: problem.Failed, Object: "pod " + k.ID.String(), Err: errors.New("its checkpoint is gone"),
				Hint: "apply its manifest again"}
		}
		all.Add(c.Objects())
	}
	return all, nil
}

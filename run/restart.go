package run

import (
	"context"
	"errors"

	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/problem"
	"github.com/podrun/podrun/run/store"
)

// Restart recreates pods from their checkpoints: it stops and removes their containers
// and sandboxes, within their grace periods, and starts them again. Results and error are
// those of Apply; the error is of kind Failed if a checkpoint was not found.
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
			return nil, &problem.Error{Kind: problem.Failed, Object: "pod " + k.ID.String(), Err: errors.New("its checkpoint was not found"),
				Hint: "apply its manifest again"}
		}
		if c.SecretsLost {
			return nil, store.LostSecrets(k.ID)
		}
		c.Pod = manifest.WithEphemeral(c.Pod, nil) // apply keeps or drops them
		all.Add(c.Objects())
	}
	return all, nil
}

package serve

import (
	"context"
	"slices"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/imagestore"
	"github.com/podrun/podrun/serve/imagegc"
	"github.com/podrun/podrun/serve/supervisor"
)

// Images returns the runtime's images, for a supervisor that removes unused ones.
func Images(e *run.Node) supervisor.Images { return images{e} }

type images struct{ engine *run.Node }

// List implements supervisor.Images. If the sandbox image is unknown, it returns all images as in
// use, because any of them may be the sandbox image.
func (s images) List(ctx context.Context, names []string) ([]imagegc.Image, error) {
	list, err := imagestore.List(ctx, s.engine)
	if err != nil {
		return nil, err
	}
	wanted := map[string]bool{}
	for _, name := range names {
		found, err := s.engine.Client.Images.Status(ctx, &runtimeapi.ImageSpec{Image: name})
		if err != nil {
			return nil, &problem.Error{Kind: problem.Runtime, Object: "image " + name, Op: "get its status", Err: err}
		}
		wanted[found.GetId()] = true
	}
	known := slices.ContainsFunc(list, func(i imagestore.Image) bool { return i.InUse })
	out := make([]imagegc.Image, 0, len(list))
	for _, i := range list {
		out = append(out, imagegc.Image{ID: i.ID, Name: i.Title(), Size: int64(i.Size), InUse: i.InUse || wanted[i.ID] || !known})
	}
	return out, nil
}

// Remove implements supervisor.Images.
func (s images) Remove(ctx context.Context, id string) error {
	if err := s.engine.Client.Images.Remove(ctx, id); err != nil {
		return err
	}
	return imagestore.ForgetPulls(ctx, s.engine)
}

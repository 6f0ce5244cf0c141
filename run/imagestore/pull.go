package imagestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/node"
)

// PullInput is the input of Pull.
type PullInput struct {
	Names   []string
	Timeout time.Duration // 0 for no limit
}

// Pull pulls images concurrently, even if the runtime already has them. The report has one entry for each name, in the
// order of names. The errors of the entries are of kind Image, or are the cause that ended ctx. If a name is invalid,
// the error is of kind Usage, and nothing is pulled.
func Pull(ctx context.Context, n *node.Node, in PullInput) (Report, error) {
	if err := n.CheckImagePolicy(); err != nil {
		return nil, err
	}
	ctx, cancel := wait.WithTimeout(ctx, in.Timeout)
	defer cancel()
	pod := &corev1.Pod{}
	for _, name := range in.Names {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, Image: name, ImagePullPolicy: corev1.PullAlways})
	}
	plan, problems := imagepull.New(pod, identity.Pod{}, "")
	if len(problems) > 0 {
		return nil, &problem.Error{Kind: problem.Usage, Err: errors.New(problems[0].Message), Hint: problems[0].Hint}
	}
	for i := range plan.Images {
		for j := range plan.Images[i].Containers {
			plan.Images[i].Containers[j].FieldPath = "" // the image belongs to no container
		}
	}
	pulls := n.NewPuller().Start(ctx, plan)
	defer pulls.Stop()
	var out Report
	for _, name := range in.Names {
		got, err := pulls.Wait(ctx, name)
		e := Entry{Name: name, ID: got.ImageID, Size: got.Size, Outcome: Pulled}
		if err != nil {
			e.Outcome = Failed
			e.Err = imageOnly(ctx, err, name)
		}
		out = append(out, e)
	}
	return out, nil
}

// imageOnly removes the container from an error about an image that belongs to no container.
func imageOnly(ctx context.Context, err error, name string) error {
	var e *problem.Error
	if !errors.As(err, &e) {
		if cause := context.Cause(ctx); cause != nil && errors.Is(err, cause) {
			return fmt.Errorf("image %s: pull: %w", name, cause)
		}
		return err
	}
	out := *e
	out.Object = "image " + name
	out.Op = "pull"
	return &out
}

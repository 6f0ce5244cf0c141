package imagestore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/node"
)

// Image is an image that the runtime has.
type Image struct {
	ID      string   `json:"id"`
	Names   []string `json:"names,omitempty"`   // names with a tag
	Digests []string `json:"digests,omitempty"` // names with a digest
	Size    uint64   `json:"size"`              // bytes
	// used by a container, a pod of podrun or the runtime itself, or loaded from <root-dir>/images
	InUse bool `json:"inUse"`
}

// Images lists the runtime's images, sorted by name. The error is of kind Runtime.
func List(ctx context.Context, n *node.Node) ([]Image, error) {
	used, err := usedImages(ctx, n)
	if err != nil {
		return nil, err
	}
	return list(ctx, n, used)
}

// list is Images with the result of usedImages.
func list(ctx context.Context, n *node.Node, used map[string]bool) ([]Image, error) {
	list, err := n.Client.ListImages(ctx)
	if err != nil {
		return nil, imageError("", "list the images", err)
	}
	out := []Image{}
	for _, i := range list {
		image := Image{ID: i.Id, Names: i.RepoTags, Digests: i.RepoDigests, Size: i.Size, InUse: i.Pinned || used[i.Id]}
		for _, name := range image.allNames() {
			image.InUse = image.InUse || used[name]
		}
		out = append(out, image)
	}
	sort.Slice(out, func(a, b int) bool { return out[a].Title() < out[b].Title() })
	return out, nil
}

// allNames returns the names with a tag and those with a digest.
func (i Image) allNames() []string { return slices.Concat(i.Names, i.Digests) }

// Title returns the image's first name, or its ID.
func (i Image) Title() string { return append(i.allNames(), i.ID)[0] }

// usedImages returns the images that containers, podrun's pods and the runtime use, and those of archives. The
// result contains their IDs, and every full name by which they refer to an image.
func usedImages(ctx context.Context, n *node.Node) (map[string]bool, error) {
	facts, err := discover.ReadBasics(ctx, n.Client, n.Settings)
	if err != nil {
		return nil, err
	}
	used := map[string]bool{facts.Runtime.SandboxImg: true, imagepull.FullName(facts.Runtime.SandboxImg): true}
	for _, name := range archivedImages(ctx, n) {
		used[name] = true
	}
	containers, err := n.Client.ListContainers(ctx, nil)
	if err != nil {
		return nil, imageError("", "list the containers", err)
	}
	for _, c := range containers {
		used[c.ImageRef], used[c.ImageId], used[c.GetImage().GetImage()] = true, true, true
		used[imagepull.FullName(c.GetImage().GetUserSpecifiedImage())] = true
	}
	pods, err := lookup.Find(ctx, n, lookup.Selector{})
	if err != nil {
		return nil, err
	}
	for _, k := range pods {
		if k.Pod == nil {
			continue
		}
		plan, _ := imagepull.New(k.Pod, k.ID, "")
		for _, i := range plan.Images {
			found, err := n.Client.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: i.Ref})
			if err != nil {
				return nil, imageError(i.Name, "get its status", err)
			}
			used[found.GetId()], used[imagepull.FullName(i.Ref)] = true, true
		}
	}
	delete(used, "")
	return used, nil
}

// PulledImage describes an image that PullImages has pulled.
type Pulled struct {
	Image string `json:"image"` // the name as requested
	ID    string `json:"id"`
	Size  uint64 `json:"size"` // bytes
}

// PullImages pulls images concurrently, even if the runtime already has them. It returns the pulled
// images in the order of names, and an error that joins the errors of the other images. Each of
// these is of kind Image, or is the cause that ended ctx. If a name is invalid, the error is of
// kind Usage, and nothing is pulled. A timeout of 0 means no limit.
func Pull(ctx context.Context, n *node.Node, names []string, timeout time.Duration) ([]Pulled, error) {
	ctx, cancel := wait.WithTimeout(ctx, timeout)
	defer cancel()
	pod := &corev1.Pod{}
	for _, name := range names {
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
	puller := n.NewPuller()
	pulls := puller.Start(ctx, plan)
	defer pulls.Stop()
	var errs []error
	out := []Pulled{}
	for _, name := range names {
		got, err := pulls.Wait(ctx, name)
		if err != nil {
			errs = append(errs, imageOnly(ctx, err, name))
			continue
		}
		out = append(out, Pulled{Image: name, ID: got.ImageID, Size: got.Size})
	}
	return out, errors.Join(errs...)
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
	out.Object, out.Op = "image "+name, "pull"
	return &out
}

// ForgetPulls removes the pull records of images that the runtime does not have.
func ForgetPulls(ctx context.Context, n *node.Node) error {
	list, err := n.Client.ListImages(ctx)
	if err != nil {
		return imageError("", "list the images", err)
	}
	var present []string
	for _, i := range list {
		present = append(present, i.Id)
	}
	return imagepull.ForgetPulls(n.Layout().ImageRecords(), present)
}

// UnusedImages returns the images that are not in use. If all is false, it returns only images
// whose names now refer to a newer image. The error is of kind Runtime.
func Unused(ctx context.Context, n *node.Node, all bool) ([]Image, error) {
	images, err := List(ctx, n)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(images, func(i Image) bool { return i.InUse }) {
		// The sandbox image is unknown, so any image could be in use.
		return nil, nil
	}
	return slices.DeleteFunc(images, func(i Image) bool { return i.InUse || !all && len(i.Names) > 0 }), nil
}

// PruneImages removes those of the given images that are still unused, and returns the images that
// it removed. On an error, which is of kind Runtime, it returns the images that it removed before
// the error.
func Prune(ctx context.Context, n *node.Node, chosen []Image) ([]Image, error) {
	images, err := Unused(ctx, n, true)
	if err != nil {
		return nil, err
	}
	var removed []Image
	for _, i := range images {
		if !slices.ContainsFunc(chosen, func(c Image) bool { return c.ID == i.ID }) {
			continue
		}
		if err := n.Client.RemoveImage(ctx, i.ID); err != nil {
			return removed, imageError(i.Title(), "remove", err)
		}
		removed = append(removed, i)
	}
	return removed, ForgetPulls(ctx, n)
}

func imageError(name, op string, err error) error {
	return &problem.Error{Kind: problem.Runtime, Object: strings.TrimSpace("image " + name), Op: op, Err: fmt.Errorf("%w", err)}
}

package imagestore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/imagepull/verifier"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/store"
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

// List lists the runtime's images, sorted by name. The error is of kind Runtime.
func List(ctx context.Context, n *node.Node) ([]Image, error) {
	used, err := usedImages(ctx, n)
	if err != nil {
		return nil, err
	}
	return list(ctx, n, used)
}

// list is List with the result of usedImages.
func list(ctx context.Context, n *node.Node, used map[string]bool) ([]Image, error) {
	list, err := n.Client.Images.List(ctx)
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

// usedImages returns the images that containers, podrun's pods, their last good definitions and the runtime use, and those of
// archives. The result contains their IDs, and every full name by which they refer to an image.
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
	good, err := store.LastGoodImages(n.Layout())
	if err != nil {
		return nil, err
	}
	for _, id := range good {
		used[id] = true
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
			found, err := n.Client.Images.Status(ctx, &runtimeapi.ImageSpec{Image: i.Ref})
			if err != nil {
				return nil, imageError(i.Name, "get its status", err)
			}
			used[found.GetId()], used[imagepull.FullName(i.Ref)] = true, true
		}
	}
	delete(used, "")
	return used, nil
}

// ForgetPulls removes the records of the pulls and the verifications of images that the runtime does not have.
func ForgetPulls(ctx context.Context, n *node.Node) error {
	list, err := n.Client.Images.List(ctx)
	if err != nil {
		return imageError("", "list the images", err)
	}
	var present []string
	names := map[string]bool{}
	for _, i := range list {
		present = append(present, i.Id)
		for _, name := range slices.Concat(i.RepoTags, i.RepoDigests) {
			names[imagepull.FullName(name)] = true
		}
	}
	return errors.Join(imagepull.ForgetPulls(n.Layout().ImageRecords(), present), verifier.Forget(n.Layout(), names))
}

func imageError(name, op string, err error) error {
	return &problem.Error{Kind: problem.Runtime, Object: strings.TrimSpace("image " + name), Op: op, Err: fmt.Errorf("%w", err)}
}

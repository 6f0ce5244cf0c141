package imagestore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/imagepull/archive"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/store"
)

// RemoveInput is the input of Remove.
type RemoveInput struct {
	Images []string // names or IDs
	Force  bool     // also names and images that are in use, and all names of an ID
}

// Remove removes names of images, and each image with its last name. An ID stands for all names of the image. As in
// docker, the names with a digest go with the last tag of their repository.
//
// The report has one entry for each removed name, and one with an error for each argument that Remove could not remove.
// Such an error is of kind Image if the image is not found. It is of kind Refused if the name, or an image with its last
// name, is in use, if an ID stands for several tags, or if the runtime cannot remove the name alone, and Force is false.
// It is also of this kind if the image is the embedded runtime's sandbox image. Otherwise it is of kind Runtime.
func Remove(ctx context.Context, n *node.Node, in RemoveInput) (out Report, err error) {
	used, err := usedImages(ctx, n)
	if err != nil {
		return nil, err
	}
	for _, name := range in.Images {
		gone, err := removeImage(ctx, n, name, used, in.Force)
		out = append(out, gone...)
		if err != nil {
			out = append(out, Entry{Name: name, Outcome: Failed, Err: err})
		}
	}
	return out, ForgetPulls(ctx, n)
}

// removeImage removes one argument of Remove. It returns the entries of the names that it has removed, also if there is
// an error.
func removeImage(ctx context.Context, n *node.Node, name string, used map[string]bool, force bool) (Report, error) {
	// An earlier argument may have removed other names of the image.
	images, err := list(ctx, n, used)
	if err != nil {
		return nil, err
	}
	found, err := n.Client.Images.Status(ctx, &runtimeapi.ImageSpec{Image: name})
	if err != nil {
		return nil, imageError(name, "get its status", err)
	}
	at := slices.IndexFunc(images, func(i Image) bool { return i.ID == found.GetId() })
	if at < 0 {
		return nil, &problem.Error{Kind: problem.Image, Object: "image " + name,
			Err: errors.New("not found"), Hint: "run 'podrun image ls' to list the images"}
	}
	image := images[at]
	chosen := namesToRemove(image, name)
	content := len(chosen) == len(image.allNames())
	switch {
	case slices.Contains(image.Names, embedded.PauseImage):
		return nil, &problem.Error{Kind: problem.Refused, Object: "image " + name,
			Err:  errors.New("is the sandbox image of the embedded runtime, and cannot be pulled again"),
			Hint: "run 'podrun runtime down' to remove it with the runtime"}
	case force:
	case content && image.InUse, slices.ContainsFunc(chosen, func(n string) bool { return used[n] }):
		return nil, imageInUse(ctx, n, image, name)
	case content && len(image.Names) > 1:
		return nil, &problem.Error{Kind: problem.Refused, Object: "image " + name,
			Err:  fmt.Errorf("has several names: %s", strings.Join(image.Names, ", ")),
			Hint: "remove it by one of its names, or use --force to remove all of them"}
	}
	if !content {
		gone, err := untag(ctx, n, image.ID, chosen)
		content = force && status.Code(err) == codes.Unimplemented
		if status.Code(err) == codes.Unimplemented && !force {
			return nil, &problem.Error{Kind: problem.Refused, Object: "image " + name,
				Err:  fmt.Errorf("the runtime cannot remove only one of its names: %s", strings.Join(image.allNames(), ", ")),
				Hint: "use --force to remove the image with all its names"}
		}
		if err != nil && !content {
			return named(gone, Untagged), imageError(name, "remove", err)
		}
	}
	outcome := Untagged
	if content {
		outcome = Removed
		chosen = image.allNames()
		if err := n.Client.Images.Remove(ctx, image.ID); err != nil && strings.Contains(err.Error(), imageHeld) {
			return nil, imageInUse(ctx, n, image, name)
		} else if err != nil {
			return nil, imageError(name, "remove", err)
		}
	}
	if len(chosen) == 0 {
		chosen = []string{image.ID}
	}
	return named(chosen, outcome), nil
}

// namesToRemove returns the names of an image that an argument removes: all if the argument is an ID, otherwise the
// name. With the last tag of a repository, the repository's names with a digest go, as in docker.
func namesToRemove(image Image, arg string) []string {
	name := imagepull.FullName(arg)
	if !slices.Contains(image.allNames(), name) {
		return image.allNames()
	}
	out := []string{name}
	repository := func(name string) string { return imagepull.WithoutTag(name) }
	sameTags := slices.ContainsFunc(image.Names, func(n string) bool { return n != name && repository(n) == repository(name) })
	if !slices.Contains(image.Names, name) || sameTags {
		return out
	}
	for _, n := range image.Digests {
		if repository(n) == repository(name) {
			out = append(out, n)
		}
	}
	return out
}

// untag removes names of an image from containerd, and waits until the CRI plugin has noticed. The image keeps other
// names. It returns the names that it has removed, also if there is an error. The code of the error is Unimplemented if
// the runtime is not containerd.
func untag(ctx context.Context, n *node.Node, id string, names []string) (gone []string, err error) {
	conn := n.Client.Images.Conn()
	if conn == nil {
		return nil, status.Error(codes.Unimplemented, "the runtime has no service for images")
	}
	for _, name := range names {
		if err := archive.Untag(ctx, conn, name); err != nil {
			return gone, err
		}
		gone = append(gone, name)
	}
	ctx, cancel := wait.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		found, err := n.Client.Images.Status(ctx, &runtimeapi.ImageSpec{Image: id})
		if err != nil {
			return gone, err
		}
		left := slices.Concat(found.GetRepoTags(), found.GetRepoDigests())
		if !slices.ContainsFunc(names, func(n string) bool { return slices.Contains(left, n) }) {
			return gone, nil
		}
		if err := wait.Sleep(ctx, 10*time.Millisecond); err != nil {
			return gone, err
		}
	}
}

// imageHeld is CRI-O's message when it refuses to remove an image that a container uses
// (go.podman.io/storage, ErrImageUsedByContainer).
const imageHeld = "image is in use by a container"

// imageInUse returns the error for an image in use. podrun removes such an image from containerd
// only if force is set.
func imageInUse(ctx context.Context, n *node.Node, image Image, name string) error {
	out := &problem.Error{Kind: problem.Refused, Object: "image " + name,
		Err:  errors.New("is in use by a container"),
		Hint: "delete the pods that use it first, or use --force"}
	if pod := lastGoodPod(ctx, n, image.ID); pod != "" {
		out.Err = fmt.Errorf("is the image of the last good definition of pod %s, which podrun restores if an update fails", pod)
		out.Hint = "use --force to remove it: a rollback then requires its registry"
	}
	if v, err := n.Client.Version(ctx); err == nil && v.GetRuntimeName() == "cri-o" {
		out.Hint = "delete the pods that use it first: CRI-O does not remove an image that a container uses"
	}
	return out
}

// lastGoodPod returns the pod whose last good definition is the reason that an image counts as in use; "" if a container uses
// the image.
func lastGoodPod(ctx context.Context, n *node.Node, id string) string {
	containers, err := n.Client.ListContainers(ctx, nil)
	if err != nil || slices.ContainsFunc(containers, func(c *runtimeapi.Container) bool {
		return c.ImageRef == id || c.ImageId == id || c.GetImage().GetImage() == id
	}) {
		return ""
	}
	updates, _ := store.ReadUpdates(n.Layout()) // usedImages has read them
	for _, u := range updates {
		if slices.Contains(u.Images, id) {
			return u.ID.String()
		}
	}
	return ""
}

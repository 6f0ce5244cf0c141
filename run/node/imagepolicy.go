package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/imagepull/archive"
	"github.com/podrun/podrun/imagepull/verifier"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/rootless"
)

// ImagesVerified reports whether this host uses only images that the image verifiers accept.
func (n *Node) ImagesVerified() bool { return n.Settings.ImagePolicy == nodeconfig.ImagePolicyVerified }

// CheckImagePolicy returns an error of kind Refused if podrun cannot enforce the policy for images with this runtime:
// another runtime may use images that podrun does not know, and another program may pull them.
func (n *Node) CheckImagePolicy() error {
	if n.ImagesVerified() && rootless.User() {
		return &problem.Error{Kind: problem.Refused,
			Err:  errors.New("the setting imagePolicy: verified is not supported for podrun as an ordinary user, which cannot check who may change the image verifiers"),
			Hint: "run podrun as root, or remove the setting"}
	}
	if !n.ImagesVerified() || n.Client.Endpoint() == embedded.ReadLayout(n.Settings.RootDir).Endpoint() {
		return nil
	}
	return &problem.Error{Kind: problem.Refused, Err: errors.New("the setting imagePolicy: verified requires the embedded runtime"),
		Hint: "set runtime: embedded, or use the runtime's own policy and remove the setting (CRI-O: policy.json; containerd: an image verifier plugin)"}
}

// VerifyImage returns an error if the image verifiers do not accept an image under a full name.
func (n *Node) VerifyImage(ctx context.Context, name string, t archive.Target) error {
	programs, err := verifier.Find(n.Settings.ImageVerifiers())
	if err != nil {
		return err
	}
	return programs.VerifyOnce(ctx, n.Layout(), verifier.Image{Name: name, MediaType: t.MediaType, Digest: t.Digest, Size: t.Size})
}

// approve returns an error if no container may use an image with this ID. What the verifiers accept is the digest to
// which the name refers, so the ID must belong to this digest.
func (n *Node) approve(ctx context.Context, image imagepull.Image, id string) error {
	if err := n.CheckImagePolicy(); err != nil {
		return err
	}
	conn, name := n.Client.Images.Conn(), imagepull.FullName(image.Ref)
	target, err := archive.TargetOf(ctx, conn, name)
	if err != nil {
		return fmt.Errorf("read the digest: %w", err)
	}
	if target == nil {
		return fmt.Errorf("the runtime has no image of the name %s, which the image verifiers could accept", name)
	}
	if err := n.VerifyImage(ctx, name, *target); err != nil {
		return err
	}
	has, err := archive.Has(ctx, conn, target.Digest, id)
	if err == nil && !has {
		err = fmt.Errorf("the image %s does not belong to the verified digest %s", id, target.Digest)
	}
	return err
}

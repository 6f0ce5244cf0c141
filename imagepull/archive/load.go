package archive

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	contentapi "github.com/containerd/containerd/api/services/content/v1"
	imagesapi "github.com/containerd/containerd/api/services/images/v1"
	leasesapi "github.com/containerd/containerd/api/services/leases/v1"
	"github.com/containerd/containerd/api/types"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// chunk is the number of bytes of a blob that Load sends in one message. It is well below
// gRPC's default limit of 4 MiB.
const chunk = 1 << 20

// Loaded is a name of an image that Load set.
type Loaded struct {
	Name   string // docker.io/library/web:1
	Digest string // the digest of the manifest or the index to which the name refers
	// Before is the digest to which the name referred before, if that was another one.
	Before string
}

// Load imports the images of the archive into containerd and returns their names. conn is the
// connection to containerd's socket. Load writes all blobs of an image before it names the image.
// Until then, a lease protects the blobs from containerd's garbage collector.
//
// The error is a gRPC status of containerd (Unimplemented if containerd has no content service),
// the cause of ctx, or a plain error about the archive. If there is an error, Load returns the
// names that it set before the error.
func (a *Archive) Load(ctx context.Context, conn grpc.ClientConnInterface) ([]Loaded, error) {
	ctx = metadata.AppendToOutgoingContext(ctx, namespaceHeader, namespace)
	leases := leasesapi.NewLeasesClient(conn)
	lease, err := leases.Create(ctx, &leasesapi.CreateRequest{Labels: map[string]string{"podrun.dev/load": "true"}})
	if err != nil {
		return nil, err
	}
	leased := metadata.AppendToOutgoingContext(ctx, "containerd-lease", lease.GetLease().GetID())
	defer func() {
		// Without a lease, containerd's garbage collector removes content to which no image refers.
		_, _ = leases.Delete(context.WithoutCancel(ctx), &leasesapi.DeleteRequest{ID: lease.GetLease().GetID()})
	}()
	for _, b := range a.blobs {
		if err := writeBlob(leased, contentapi.NewContentClient(conn), leases, a.tar, b); err != nil {
			return nil, fmt.Errorf("blob %s: %w", b.desc.Digest, err)
		}
	}
	var loaded []Loaded
	for _, i := range a.images {
		for _, name := range i.names {
			before, err := nameImage(leased, imagesapi.NewImagesClient(conn), name, i.target)
			if err != nil {
				return loaded, fmt.Errorf("image %s: %w", name, err)
			}
			loaded = append(loaded, Loaded{Name: name, Digest: i.target.Digest, Before: before})
		}
	}
	return loaded, nil
}

// The header of containerd's API with the namespace of the CRI plugin's images.
const (
	namespaceHeader = "containerd-namespace"
	namespace       = "k8s.io"
)

// DigestOf returns the digest of the manifest or the index to which a full name refers in
// containerd; "" if containerd has no image of this name. The error is a gRPC status.
func DigestOf(ctx context.Context, conn grpc.ClientConnInterface, name string) (string, error) {
	return digestOf(metadata.AppendToOutgoingContext(ctx, namespaceHeader, namespace), imagesapi.NewImagesClient(conn), name)
}

func digestOf(ctx context.Context, client imagesapi.ImagesClient, name string) (string, error) {
	image, err := client.Get(ctx, &imagesapi.GetImageRequest{Name: name})
	if status.Code(err) == codes.NotFound {
		return "", nil
	}
	return image.GetImage().GetTarget().GetDigest(), err
}

// ingestOf returns the name under which containerd keeps the written part of a blob.
func ingestOf(b blob) string { return "podrun-load-" + b.desc.Digest }

// writeBlob writes a blob, and labels it with references to its children. It skips a blob that
// already exists, unless its content is lost, and resumes a load that was interrupted. If containerd
// refuses the content, writeBlob discards it, because a later load would otherwise resume with it. If a
// part of that content was from an earlier load, writeBlob writes the blob again.
func writeBlob(ctx context.Context, client contentapi.ContentClient, leases leasesapi.LeasesClient, a *tarball, b blob) error {
	for try := 0; ; try++ {
		resumed, err := tryBlob(ctx, client, a, b)
		if status.Code(err) == codes.AlreadyExists {
			state, _, rerr := readBlob(ctx, client, b.desc.Digest)
			if state != blobLost || rerr != nil || try > 0 {
				return rerr
			}
			if err := forget(ctx, client, leases, b.desc.Digest); err != nil {
				return err
			}
			continue
		}
		if status.Code(err) != codes.FailedPrecondition {
			return err
		}
		if _, aborted := client.Abort(context.WithoutCancel(ctx), &contentapi.AbortRequest{Ref: ingestOf(b)}); aborted != nil || !resumed || try > 0 {
			return err
		}
	}
}

// tryBlob is one attempt of writeBlob. resumed reports whether containerd had a part of the blob. The code
// of the error is AlreadyExists if containerd's database lists the blob.
func tryBlob(ctx context.Context, client contentapi.ContentClient, a *tarball, b blob) (resumed bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.Write(ctx)
	if err != nil {
		return false, err
	}
	call := func(r *contentapi.WriteContentRequest) error {
		// After io.EOF, the response contains the reason.
		if err := stream.Send(r); err != nil && err != io.EOF {
			return err
		}
		_, err := stream.Recv()
		return err
	}
	request := func(action contentapi.WriteAction) *contentapi.WriteContentRequest {
		return &contentapi.WriteContentRequest{Action: action, Ref: ingestOf(b), Total: b.desc.Size, Expected: b.desc.Digest}
	}
	if err := stream.Send(request(contentapi.WriteAction_STAT)); err != nil && err != io.EOF {
		return false, err
	}
	answer, err := stream.Recv()
	if err != nil {
		return false, err
	}
	resumed = answer.Offset != 0
	if answer.Offset < 0 || answer.Offset > b.desc.Size {
		return resumed, status.Errorf(codes.FailedPrecondition, "an earlier load wrote %d bytes instead of %d", answer.Offset, b.desc.Size)
	}
	from := a.open(span{b.where.at + answer.Offset, b.where.size - answer.Offset})
	if b.data != nil {
		from = bytes.NewReader(b.data[answer.Offset:])
	}
	buffer, offset := make([]byte, chunk), answer.Offset
	for {
		n, err := io.ReadFull(from, buffer)
		if n > 0 {
			r := request(contentapi.WriteAction_WRITE)
			r.Offset, r.Data = offset, buffer[:n]
			if err := call(r); err != nil {
				return resumed, err
			}
			offset += int64(n)
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		} else if err != nil {
			return resumed, err
		}
	}
	r := request(contentapi.WriteAction_COMMIT)
	r.Offset, r.Labels = offset, references(b)
	return resumed, call(r)
}

// references returns the labels of a blob that list its children. containerd's garbage collector
// reads them.
func references(b blob) map[string]string {
	if len(b.children) == 0 {
		return nil
	}
	labels := map[string]string{}
	for i, c := range b.children {
		labels[fmt.Sprintf("containerd.io/gc.ref.content.%d", i)] = c.Digest
	}
	return labels
}

// nameImage sets the name of an image. If another image has the name, containerd moves the name to
// this image, and nameImage returns the digest of the other one.
func nameImage(ctx context.Context, client imagesapi.ImagesClient, name string, target descriptor) (before string, err error) {
	if before, err = digestOf(ctx, client, name); err != nil {
		return "", err
	}
	image := &imagesapi.Image{Name: name, Target: &types.Descriptor{MediaType: target.MediaType, Digest: target.Digest, Size: target.Size}}
	_, err = client.Create(ctx, &imagesapi.CreateImageRequest{Image: image})
	if status.Code(err) == codes.AlreadyExists || err != nil && strings.Contains(err.Error(), "already exists") {
		_, err = client.Update(ctx, &imagesapi.UpdateImageRequest{Image: image})
	}
	if before == target.Digest {
		before = ""
	}
	return before, err
}

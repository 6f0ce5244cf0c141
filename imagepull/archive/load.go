package archive

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	contentapi "github.com/containerd/containerd/api/services/content/v1"
	imagesapi "github.com/containerd/containerd/api/services/images/v1"
	leasesapi "github.com/containerd/containerd/api/services/leases/v1"
	"github.com/containerd/containerd/api/types"
	"github.com/distribution/reference"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// chunk is the number of bytes of a blob that Load sends in one message. It is well below
// gRPC's default limit of 4 MiB.
const chunk = 1 << 20

// Load imports the images of an archive (docker-archive or OCI image layout, as an uncompressed
// tar) into containerd and returns their full names (docker.io/library/web:1). conn is the
// connection to containerd's socket. Load reads file at offsets, and does not close it. It writes
// all blobs of an image before it names the image. Until then, a lease protects the blobs from
// containerd's garbage collector.
//
// The error is a gRPC status of containerd (Unimplemented if containerd has no content service),
// the cause of ctx, or a plain error about the archive. If there is an error, Load returns the
// names of the images that it loaded before the error.
func Load(ctx context.Context, conn grpc.ClientConnInterface, file *os.File) ([]string, error) {
	a, err := readTarball(ctx, file)
	if err != nil {
		return nil, err
	}
	images, blobs, err := a.images()
	if err != nil {
		return nil, err
	}
	for i := range images {
		if images[i].names, err = fullNames(images[i].names); err != nil {
			return nil, err
		}
		if len(images[i].names) == 0 {
			return nil, fmt.Errorf("image %s has no name in the archive: save it by name ('docker save NAME:TAG'), not by ID", images[i].target.Digest)
		}
		if err := forHost(images[i].names[0], images[i].platforms, platform{runtime.GOOS, runtime.GOARCH}); err != nil {
			return nil, err
		}
	}
	ctx = metadata.AppendToOutgoingContext(ctx, "containerd-namespace", "k8s.io")
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
	for _, b := range blobs {
		if err := writeBlob(leased, contentapi.NewContentClient(conn), a, b); err != nil {
			return nil, fmt.Errorf("blob %s: %w", b.desc.Digest, err)
		}
	}
	var loaded []string
	for _, i := range images {
		for _, name := range i.names {
			if err := nameImage(leased, imagesapi.NewImagesClient(conn), name, i.target); err != nil {
				return loaded, fmt.Errorf("image %s: %w", name, err)
			}
			loaded = append(loaded, name)
		}
	}
	return loaded, nil
}

// fullNames returns the names in CRI's form: docker.io/library/web:1.
func fullNames(names []string) ([]string, error) {
	var out []string
	for _, name := range names {
		full, err := reference.ParseDockerRef(name)
		if err != nil {
			return nil, fmt.Errorf("couldn't parse image name %q: %w", name, err)
		}
		out = append(out, full.String())
	}
	return out, nil
}

// writeBlob writes a blob, and labels it with references to its children. It skips a blob that
// already exists.
func writeBlob(ctx context.Context, client contentapi.ContentClient, a *tarball, b blob) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.Write(ctx)
	if err != nil {
		return err
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
		return &contentapi.WriteContentRequest{Action: action, Ref: "podrun-load-" + b.desc.Digest, Total: b.desc.Size, Expected: b.desc.Digest}
	}
	if err := stream.Send(request(contentapi.WriteAction_STAT)); err != nil && err != io.EOF {
		return err
	}
	answer, err := stream.Recv()
	if status.Code(err) == codes.AlreadyExists {
		return nil
	} else if err != nil {
		return err
	}
	if answer.Offset < 0 || answer.Offset > b.desc.Size {
		return fmt.Errorf("a previous load stopped at %d of %d bytes", answer.Offset, b.desc.Size)
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
				return err
			}
			offset += int64(n)
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		} else if err != nil {
			return err
		}
	}
	r := request(contentapi.WriteAction_COMMIT)
	r.Offset, r.Labels = offset, references(b)
	err = call(r)
	if status.Code(err) == codes.AlreadyExists {
		return nil
	}
	return err
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
// this image.
func nameImage(ctx context.Context, client imagesapi.ImagesClient, name string, target descriptor) error {
	image := &imagesapi.Image{Name: name, Target: &types.Descriptor{MediaType: target.MediaType, Digest: target.Digest, Size: target.Size}}
	_, err := client.Create(ctx, &imagesapi.CreateImageRequest{Image: image})
	if status.Code(err) == codes.AlreadyExists || err != nil && strings.Contains(err.Error(), "already exists") {
		_, err = client.Update(ctx, &imagesapi.UpdateImageRequest{Image: image})
	}
	return err
}

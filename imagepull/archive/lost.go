package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"

	contentapi "github.com/containerd/containerd/api/services/content/v1"
	imagesapi "github.com/containerd/containerd/api/services/images/v1"
	leasesapi "github.com/containerd/containerd/api/services/leases/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// After a power failure, the file of a blob may be missing, empty or filled with zeros, while containerd's
// database still lists the blob. containerd then answers that the blob exists when podrun, or a pull,
// writes it, but nothing can read it. Such a blob is lost.

// maxHashed is the size, in bytes, up to which lost checks the content of a blob. Manifests and
// configurations are smaller. Of a larger blob, it checks the size.
const maxHashed = 4 << 20

// maxDepth and maxDocuments limit the documents that Lost reads of one image.
const (
	maxDepth     = 4
	maxDocuments = 64
)

// store are the services of containerd that have the content of images.
type store struct {
	content contentapi.ContentClient
	images  imagesapi.ImagesClient
	left    int // the number of documents that may still be read
}

// Lost returns the digest of a lost or absent blob of an image; "" if there is none, or if containerd does
// not have the image. With layers, it also checks the layers, which containerd requires only to unpack the image.
// The error is a gRPC status.
func Lost(ctx context.Context, conn grpc.ClientConnInterface, name string, layers bool) (string, error) {
	ctx = metadata.AppendToOutgoingContext(ctx, namespaceHeader, namespace)
	s := store{contentapi.NewContentClient(conn), imagesapi.NewImagesClient(conn), maxDocuments}
	digest, err := digestOf(ctx, s.images, name)
	if digest == "" || err != nil {
		return "", err
	}
	return s.lostBelow(ctx, digest, layers, maxDepth)
}

// Forget removes a lost blob from containerd's database, so that the next load or pull writes it
// again. Until then, containerd may also remove the blobs and the unpacked layers to which the lost one
// refers; it fetches and unpacks them again when it requires them. The error is a gRPC status.
func Forget(ctx context.Context, conn grpc.ClientConnInterface, digest string) error {
	ctx = metadata.AppendToOutgoingContext(ctx, namespaceHeader, namespace)
	return forget(ctx, contentapi.NewContentClient(conn), leasesapi.NewLeasesClient(conn), digest)
}

func forget(ctx context.Context, content contentapi.ContentClient, leases leasesapi.LeasesClient, digest string) error {
	_, err := content.Delete(ctx, &contentapi.DeleteContentRequest{Digest: digest})
	if err != nil && status.Code(err) != codes.NotFound {
		return err
	}
	// An empty file remains until the garbage collector has run. If it still existed when the blob is
	// written, containerd would keep it. The deletion of a lease can wait for the collector.
	lease, err := leases.Create(ctx, &leasesapi.CreateRequest{})
	if err != nil {
		return err
	}
	_, err = leases.Delete(ctx, &leasesapi.DeleteRequest{ID: lease.GetLease().GetID(), Sync: true})
	return err
}

// lostBelow returns the first lost blob of the document with the digest and of the blobs to which it
// refers. A blob that containerd does not list counts as lost, except an image in an index: the index may
// list images for other platforms.
func (s *store) lostBelow(ctx context.Context, digest string, layers bool, depth int) (string, error) {
	if s.left--; depth == 0 || s.left < 0 {
		return "", nil
	}
	state, data, err := readBlob(ctx, s.content, digest)
	switch {
	case err != nil:
		return "", err
	case state == blobAbsent && depth < maxDepth:
		return "", nil
	case state != blobPresent:
		return digest, nil
	}
	var d document
	if data == nil || json.Unmarshal(data, &d) != nil {
		return "", nil
	}
	for _, m := range d.Manifests {
		if lost, err := s.lostBelow(ctx, m.Digest, layers, depth-1); lost != "" || err != nil {
			return lost, err
		}
	}
	leaves := make([]string, 0, 1+len(d.Layers))
	if d.Config != nil {
		leaves = append(leaves, d.Config.Digest)
	}
	for _, l := range d.Layers {
		if layers {
			leaves = append(leaves, l.Digest)
		}
	}
	for _, leaf := range leaves {
		if state, _, err := readBlob(ctx, s.content, leaf); err != nil {
			return "", err
		} else if state != blobPresent {
			return leaf, nil
		}
	}
	return "", nil
}

// blobState is the state of a blob in containerd.
type blobState int

const (
	blobAbsent  blobState = iota // containerd's database does not list it
	blobLost                     // the database lists it, but its content cannot be read
	blobPresent                  // it can be read
)

// readBlob checks a blob. If the blob is not larger than maxHashed, readBlob also returns its content.
func readBlob(ctx context.Context, client contentapi.ContentClient, digest string) (blobState, []byte, error) {
	info, err := client.Info(ctx, &contentapi.InfoRequest{Digest: digest})
	if status.Code(err) == codes.NotFound {
		return blobAbsent, nil, nil
	}
	if err != nil {
		return blobAbsent, nil, err
	}
	size, from := info.GetInfo().GetSize(), int64(0)
	if size > maxHashed {
		from = size - 1
	}
	data, err := readFrom(ctx, client, digest, from)
	switch {
	case status.Code(err) == codes.NotFound:
		return blobLost, nil, nil
	case err != nil:
		return blobAbsent, nil, err
	case int64(len(data)) != size-from:
		return blobLost, nil, nil
	case from > 0:
		return blobPresent, nil, nil
	}
	if sum := sha256.Sum256(data); digest != "sha256:"+hex.EncodeToString(sum[:]) {
		return blobLost, nil, nil
	}
	return blobPresent, data, nil
}

// readFrom reads the rest of a blob, of which at most maxHashed bytes may remain.
func readFrom(ctx context.Context, client contentapi.ContentClient, digest string, offset int64) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.Read(ctx, &contentapi.ReadContentRequest{Digest: digest, Offset: offset})
	if err != nil {
		return nil, err
	}
	data := []byte{}
	for {
		part, err := stream.Recv()
		if err == io.EOF {
			return data, nil
		}
		if err != nil {
			return nil, err
		}
		if data = append(data, part.GetData()...); len(data) > maxHashed {
			return data, nil
		}
	}
}

package archive

import (
	"context"
	"encoding/json"

	contentapi "github.com/containerd/containerd/api/services/content/v1"
	imagesapi "github.com/containerd/containerd/api/services/images/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Target is the descriptor of the manifest or index to which the name of an image refers.
type Target struct {
	MediaType, Digest string
	Size              int64
}

// TargetOf returns the target of a full name in containerd; nil if containerd has no image of this name. The error is a
// gRPC status.
func TargetOf(ctx context.Context, conn grpc.ClientConnInterface, name string) (*Target, error) {
	ctx = metadata.AppendToOutgoingContext(ctx, namespaceHeader, namespace)
	answer, err := imagesapi.NewImagesClient(conn).Get(ctx, &imagesapi.GetImageRequest{Name: name})
	switch d := answer.GetImage().GetTarget(); {
	case status.Code(err) == codes.NotFound:
		return nil, nil
	case err != nil:
		return nil, err
	default:
		return &Target{d.GetMediaType(), d.GetDigest(), d.GetSize()}, nil
	}
}

// Has reports whether an image ID of CRI, which is the digest of a configuration, belongs to the manifest or index with
// the digest. It reads their content in containerd, whose digests it verifies. The error is a gRPC status.
func Has(ctx context.Context, conn grpc.ClientConnInterface, digest, id string) (bool, error) {
	ctx = metadata.AppendToOutgoingContext(ctx, namespaceHeader, namespace)
	s := store{content: contentapi.NewContentClient(conn), left: maxDocuments}
	return s.has(ctx, digest, id, maxDepth)
}

func (s *store) has(ctx context.Context, digest, id string, depth int) (bool, error) {
	if s.left--; depth == 0 || s.left < 0 {
		return false, nil
	}
	state, data, err := readBlob(ctx, s.content, digest)
	var d document
	if err != nil || state != blobPresent || data == nil || json.Unmarshal(data, &d) != nil {
		return false, err
	}
	if d.Config != nil && d.Config.Digest == id {
		return true, nil
	}
	for _, m := range d.Manifests {
		if found, err := s.has(ctx, m.Digest, id, depth-1); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"

	contentapi "github.com/containerd/containerd/api/services/content/v1"
	imagesapi "github.com/containerd/containerd/api/services/images/v1"
	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/podrun/podrun/internal/problem"
)

// Save writes images of containerd to an archive that is an OCI layout and also has docker's manifest.json, like the
// archives of `docker save` and `ctr images export`. names are full names; a name with a digest appears only in the
// OCI layout. The archive keeps the digests of the images. Of an index, it has the manifests that containerd has. The
// same images always result in the same archive.
//
// The error is a gRPC status of containerd, a *problem.Error about one image, or an error of to.
func Save(ctx context.Context, conn grpc.ClientConnInterface, names []string, to io.Writer) error {
	ctx = metadata.AppendToOutgoingContext(ctx, namespaceHeader, namespace)
	s := &saver{content: contentapi.NewContentClient(conn), tar: tar.NewWriter(to), blobs: map[string]int64{}}
	index := document{SchemaVersion: 2, MediaType: "application/vnd.oci.image.index.v1+json"}
	list := []*saved{}
	for _, name := range names {
		image, err := imagesapi.NewImagesClient(conn).Get(ctx, &imagesapi.GetImageRequest{Name: name})
		if err != nil {
			return err
		}
		target := image.GetImage().GetTarget()
		d := descriptor{MediaType: target.MediaType, Digest: target.Digest, Size: target.Size}
		entry, err := s.collect(ctx, d)
		if err == nil && entry == nil {
			err = errors.New("containerd has no manifest of the image")
		}
		if err != nil {
			return &problem.Error{Kind: problem.Image, Object: "image " + name, Op: "save", Err: err, Hint: "pull the image again; containerd does not keep all layers if discard_unpacked_layers is set in its configuration"}
		}
		d.Annotations = map[string]string{nameNotes[0]: name}
		if named, err := reference.ParseNormalizedNamed(name); err == nil && !strings.Contains(name, "@") {
			d.Annotations[nameNotes[1]] = named.(reference.Tagged).Tag()
			at := slices.IndexFunc(list, func(l *saved) bool { return l.Config == entry.Config })
			if at < 0 {
				at, list = len(list), append(list, entry)
			}
			list[at].RepoTags = append(list[at].RepoTags, reference.FamiliarString(named))
		}
		index.Manifests = append(index.Manifests, d)
	}
	if err := s.json("oci-layout", map[string]string{"imageLayoutVersion": "1.0.0"}); err != nil {
		return err
	}
	for _, d := range slices.Sorted(maps.Keys(s.blobs)) {
		if err := s.copy(ctx, d); err != nil {
			return fmt.Errorf("blob %s: %w", d, err)
		}
	}
	if err := s.json("index.json", index); err != nil {
		return err
	}
	if err := s.json("manifest.json", list); err != nil {
		return err
	}
	return s.tar.Close()
}

// saved is an entry of manifest.json.
type saved struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// saver is an archive that Save writes.
type saver struct {
	content contentapi.ContentClient
	tar     *tar.Writer
	blobs   map[string]int64 // sizes by digest
}

// collect adds the blobs of an image, and returns its entry of manifest.json. Of an index, the entry is that of the
// manifest for this host, or else of the first one; it is nil if containerd has none.
func (s *saver) collect(ctx context.Context, d descriptor) (entry *saved, err error) {
	state, data, err := readBlob(ctx, s.content, d.Digest)
	if err != nil || state == blobAbsent {
		return nil, err
	}
	var doc document
	if state == blobLost {
		err = errors.New("the content is lost")
	} else if err = json.Unmarshal(data, &doc); err == nil {
		err = doc.check(d.MediaType)
	}
	if err != nil {
		return nil, fmt.Errorf("blob %s: %w", d.Digest, err)
	}
	s.blobs[d.Digest] = int64(len(data))
	if doc.Config != nil {
		entry = &saved{Config: blobPath(doc.Config.Digest)}
		for _, b := range append([]descriptor{*doc.Config}, doc.Layers...) {
			if state, _, err := readBlob(ctx, s.content, b.Digest); err != nil || state != blobPresent {
				return nil, errors.Join(err, fmt.Errorf("containerd does not have its blob %s", b.Digest))
			}
			s.blobs[b.Digest] = b.Size
		}
		for _, l := range doc.Layers {
			entry.Layers = append(entry.Layers, blobPath(l.Digest))
		}
	}
	for _, m := range doc.Manifests {
		of, err := s.collect(ctx, m)
		if err != nil {
			return nil, err
		}
		if of != nil && (entry == nil || m.Platform != nil && *m.Platform == (platform{runtime.GOOS, runtime.GOARCH})) {
			entry = of
		}
	}
	return entry, nil
}

// copy writes a blob, and verifies its content.
func (s *saver) copy(ctx context.Context, sum string) error {
	want, err := digest.Parse(sum)
	if err != nil {
		return err
	}
	stream, err := s.content.Read(ctx, &contentapi.ReadContentRequest{Digest: sum})
	if err != nil {
		return err
	}
	if err := s.header(blobPath(sum), s.blobs[sum]); err != nil {
		return err
	}
	verified := want.Verifier()
	for {
		part, err := stream.Recv()
		if err == io.EOF {
			break
		}
		if err == nil {
			_, err = io.MultiWriter(s.tar, verified).Write(part.GetData())
		}
		if err != nil {
			return err
		}
	}
	if !verified.Verified() {
		return errors.New("containerd has another content")
	}
	return nil
}

func (s *saver) header(name string, size int64) error {
	return s.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o444, Size: size, Typeflag: tar.TypeReg})
}

func (s *saver) json(name string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if err := s.header(name, int64(len(data))); err != nil {
		return err
	}
	_, err = io.Copy(s.tar, bytes.NewReader(data))
	return err
}

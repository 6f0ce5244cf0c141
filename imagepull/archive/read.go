package archive

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"

	"github.com/distribution/reference"

	"github.com/podrun/podrun/internal/problem"
)

// Archive is an image archive that Read has checked.
type Archive struct {
	tar    *tarball
	images []named
	blobs  []blob
}

// Image is an image in an archive.
type Image struct {
	Names  []string // full names (docker.io/library/web:1)
	Digest string   // the digest of the manifest or the index to which the names will refer
	Target Target
}

// Read reads the documents of an archive (docker-archive or OCI image layout, as an uncompressed
// tar), and checks the names, the digests and the platforms of its images. It has no side effects.
// The Archive reads the file later at offsets; nothing closes the file.
//
// The error is the cause of ctx, a *problem.Error about one image, or a plain error about the
// archive.
func Read(ctx context.Context, file *os.File) (*Archive, error) {
	t, err := readTarball(ctx, file)
	if err != nil {
		return nil, err
	}
	a := &Archive{tar: t}
	if a.images, a.blobs, err = t.images(); err != nil {
		return nil, err
	}
	for i := range a.images {
		image := &a.images[i]
		if image.names, err = fullNames(image.names, image.target.Digest); err != nil {
			return nil, err
		}
		if len(image.names) == 0 {
			return nil, fmt.Errorf("image %s has no name in the archive: save it by name ('docker save NAME:TAG'), not by ID", image.target.Digest)
		}
		if a.tar.isOCI() {
			// The digest is that of the registry. The manifests of a docker-archive are podrun's own.
			if err := image.addDigestNames(); err != nil {
				return nil, err
			}
		}
		if err := forHost(image.names[0], image.platforms, platform{runtime.GOOS, runtime.GOARCH}); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// Images returns the images of the archive.
func (a *Archive) Images() []Image {
	out := make([]Image, len(a.images))
	for i, image := range a.images {
		out[i] = Image{Names: image.names, Digest: image.target.Digest, Target: Target{image.target.MediaType, image.target.Digest, image.target.Size}}
	}
	return out
}

// AddDigestNames gives each image that has a tag the name with its digest, too.
func (a *Archive) AddDigestNames() error {
	for i := range a.images {
		if err := a.images[i].addDigestNames(); err != nil {
			return err
		}
	}
	return nil
}

func (n *named) addDigestNames() error {
	for _, name := range slices.Clone(n.names) {
		ref, err := reference.ParseDockerRef(name)
		if err != nil {
			return err
		}
		if pinned := ref.Name() + "@" + n.target.Digest; !slices.Contains(n.names, pinned) {
			n.names = append(n.names, pinned)
		}
	}
	return nil
}

// fullNames returns the names in CRI's form: docker.io/library/web:1. The author of an archive
// chooses the names in it freely, and the runtime believes a name with a digest: a container whose
// image is pinned by digest runs whatever has this name. fullNames therefore refuses a name whose
// digest is not the digest of the image, which containerd verifies when it stores the content.
func fullNames(names []string, digest string) ([]string, error) {
	var out []string
	for _, name := range names {
		full, err := reference.ParseDockerRef(name)
		if err != nil {
			return nil, fmt.Errorf("couldn't parse image name %q: %w", name, err)
		}
		if pinned, ok := full.(reference.Digested); ok && pinned.Digest().String() != digest {
			return nil, &problem.Error{Kind: problem.Image, Object: "image " + full.String(), Err: errors.New("the image that the archive has under this name has the digest " + digest),
				Hint: "the archive is damaged or was manipulated: create it again from the original image"}
		}
		out = append(out, full.String())
	}
	return out, nil
}

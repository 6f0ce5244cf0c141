package archive

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	dockerarchive "github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"google.golang.org/grpc"
)

// hostImage returns a random image for this host, with layers of different sizes.
func hostImage(t *testing.T) v1.Image {
	t.Helper()
	image, err := random.Image(3<<20, 2)
	if err == nil {
		config, cerr := image.ConfigFile()
		if err = cerr; err == nil {
			config.OS, config.Architecture = "linux", runtime.GOARCH
			image, err = mutate.ConfigFile(image, config)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// loadFrom loads an archive into the daemon, and returns the names.
func loadFrom(t *testing.T, conn *grpc.ClientConn, path string) (names []string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	a, err := Read(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := a.Load(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range loaded {
		names = append(names, l.Name)
	}
	return names
}

// ociArchive writes an OCI layout whose index lists this host's image and one that the layout does not contain.
func ociArchive(t *testing.T, ref string, image v1.Image) (path, digest string) {
	t.Helper()
	dir, path := t.TempDir(), filepath.Join(t.TempDir(), "oci.tar")
	other, err := random.Image(10, 1)
	if err != nil {
		t.Fatal(err)
	}
	index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex),
		mutate.IndexAddendum{Add: other, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "alpha"}}},
		mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: runtime.GOARCH}}})
	written, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = written.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": ref}))
	}
	hash, herr := index.Digest()
	absent, aerr := other.Digest()
	if err != nil || herr != nil || aerr != nil {
		t.Fatal(err, herr, aerr)
	}
	if err := os.Remove(filepath.Join(dir, "blobs", "sha256", absent.Hex)); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, hash.String()
}

// TestSave saves an image of a docker-archive and one of an OCI layout into one archive. Another library must accept
// it as a docker-archive and as an OCI layout, and podrun must load it under the same names and digests.
func TestSave(t *testing.T) {
	d, conn := serve(t)
	docker, oci := hostImage(t), hostImage(t)
	dockerPath := filepath.Join(t.TempDir(), "docker.tar")
	if err := dockerarchive.WriteToFile(dockerPath, name.MustParseReference("web:1"), docker); err != nil {
		t.Fatal(err)
	}
	ociPath, digest := ociArchive(t, "r.example/app:2", oci)
	if got := loadFrom(t, conn, dockerPath); !slices.Equal(got, []string{"docker.io/library/web:1"}) {
		t.Errorf("docker-archive: %q", got)
	}
	pinned := "r.example/app@" + digest
	names := []string{"r.example/app:2", pinned}
	if got := loadFrom(t, conn, ociPath); !slices.Equal(got, names) {
		t.Errorf("OCI layout: %q, want %q", got, names)
	}
	names = append(names, "docker.io/library/web:1")
	path := filepath.Join(t.TempDir(), "saved.tar")
	var first, second bytes.Buffer
	for _, to := range []io.Writer{&first, &second} {
		if err := Save(t.Context(), conn, names, to); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two archives of the same images differ")
	}
	if err := os.WriteFile(path, first.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for tag, want := range map[string]v1.Image{"web:1": docker, "r.example/app:2": oci} {
		ref, err := name.NewTag(tag)
		if err != nil {
			t.Fatal(err)
		}
		got, err := dockerarchive.ImageFromPath(path, &ref)
		if err == nil {
			err = validate.Image(got)
		}
		if err != nil {
			t.Fatalf("%s as a docker-archive: %v", tag, err)
		}
		if a, _ := got.ConfigName(); a != must(want.ConfigName()) {
			t.Errorf("%s: another image", tag)
		}
	}
	dir := t.TempDir()
	if err := unpackInto(dir, &first); err != nil {
		t.Fatal(err)
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 3 {
		t.Fatalf("%+v, %v", manifest, err)
	}
	for i, m := range manifest.Manifests {
		if m.Annotations["io.containerd.image.name"] != names[i] || m.Digest.String() != d.images[names[i]].Digest {
			t.Errorf("%s: %+v", names[i], m)
		}
	}
	again, other := serve(t)
	got := loadFrom(t, other, path)
	for _, n := range names {
		if !slices.Contains(got, n) || again.images[n].GetDigest() != d.images[n].Digest {
			t.Errorf("%s was not loaded again: %q", n, got)
		}
	}
}

// TestSaveOfPartialImages checks that an archive is never written without a part of an image.
func TestSaveOfPartialImages(t *testing.T) {
	d, conn := serve(t)
	path, _ := ociArchive(t, "r.example/app:2", hostImage(t))
	loadFrom(t, conn, path)
	complete := d.records
	for digest, size := range complete {
		d.records = map[string]int64{}
		for other, size := range complete {
			if other != digest {
				d.records[other] = size
			}
		}
		err := Save(t.Context(), conn, []string{"r.example/app:2"}, io.Discard)
		if err == nil || !strings.Contains(err.Error(), "image r.example/app:2: save: ") {
			t.Errorf("without a blob of %d bytes: %v", size, err)
		}
	}
	d.records = complete
	for digest, data := range d.files {
		if len(data) > maxHashed/2 {
			changed := bytes.Clone(data)
			changed[0]++
			d.files[digest] = changed
		}
	}
	if err := Save(t.Context(), conn, []string{"r.example/app:2"}, io.Discard); err == nil {
		t.Error("a changed layer was saved")
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func unpackInto(dir string, from io.Reader) error {
	r := tar.NewReader(from)
	for {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		var data []byte
		if err == nil {
			data, err = io.ReadAll(r)
		}
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(dir, h.Name)), 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, h.Name), data, 0o600)
		}
		if err != nil {
			return err
		}
	}
}

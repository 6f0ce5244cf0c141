package archive

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	imagesapi "github.com/containerd/containerd/api/services/images/v1"
	"github.com/containerd/containerd/api/types"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// tarOf writes an archive of the given files.
func tarOf(t testing.TB, files ...string) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "a.tar"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	w := tar.NewWriter(f)
	for i := 0; i < len(files); i += 2 {
		h := &tar.Header{Name: files[i], Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(files[i+1]))}
		if target, ok := strings.CutPrefix(files[i+1], "-> "); ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, target, 0
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write([]byte(files[i+1])); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestDockerArchive(t *testing.T) {
	a, err := readTarball(t.Context(), tarOf(t, "a/layer.tar", "one", "b/layer.tar", "-> ../a/layer.tar", "c.tar", "\x1f\x8bzipped", "c.json", "{}",
		"manifest.json", `[{"Config":"c.json","RepoTags":["web:1"],"Layers":["a/layer.tar","b/layer.tar","c.tar"]}]`))
	if err != nil {
		t.Fatal(err)
	}
	images, blobs, err := a.images()
	if err != nil || len(images) != 1 || len(blobs) != 5 {
		t.Fatalf("%v %v %v", images, blobs, err)
	}
	if names, err := fullNames(images[0].names, ""); err != nil || names[0] != "docker.io/library/web:1" {
		t.Errorf("%v %v", names, err)
	}
	if blobs[1].desc.Digest != blobs[2].desc.Digest || blobs[1].desc.Digest != "sha256:7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed" {
		t.Errorf("the link is not the layer: %v", blobs[1:3])
	}
	if got := blobs[3].desc.MediaType; got != "application/vnd.docker.image.rootfs.diff.tar.gzip" {
		t.Error(got)
	}
	last := blobs[4]
	if last.desc.Digest != images[0].target.Digest || len(references(last)) != 4 ||
		references(last)["containerd.io/gc.ref.content.0"] != blobs[0].desc.Digest {
		t.Errorf("%+v", last)
	}
}

func TestArchivesThatAreNone(t *testing.T) {
	for want, f := range map[string]*os.File{
		"not an OCI archive or a docker-archive":                 tarOf(t, "x", "y"),
		"c.json is not in the archive":                           tarOf(t, "manifest.json", `[{"Config":"c.json"}]`),
		"index.json: ":                                           tarOf(t, "index.json", `{`),
		"blob sha256:ab is missing or incomplete in the archive": tarOf(t, "index.json", `{"manifests":[{"digest":"sha256:ab","size":1,"mediaType":"application/vnd.oci.image.manifest.v1+json"}]}`),
		"blob sha256:ab has no media type":                       tarOf(t, "index.json", `{"manifests":[{"digest":"sha256:ab","size":1}]}`),
	} {
		a, err := readTarball(t.Context(), f)
		if err == nil {
			_, _, err = a.images()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// An index that refers to itself, with any media type, once caused a stack overflow; its digest would be
// wrong. podrun must refuse chains of indexes that exceed the limits. An archive must not give another meaning to
// a digest: containerd ignores the content and the media type of a blob that it already has.
func TestHostileArchives(t *testing.T) {
	const index, manifest = "application/vnd.oci.image.index.v1+json", "application/vnd.oci.image.manifest.v1+json"
	entry := func(digest string, size int, mediaType string) string {
		return fmt.Sprintf(`{"digest":"sha256:%s","size":%d,"mediaType":%q}`, digest, size, mediaType)
	}
	list := func(entries ...string) string { return `{"manifests":[` + strings.Join(entries, ",") + `]}` }
	blob := func(digest string) string { return "blobs/sha256/" + digest }
	sum := func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
	of := func(text, mediaType string) string { return entry(sum(text), len(text), mediaType) }
	// The size is part of the text whose size it states, so it must always have the same number of
	// digits.
	wrong := strings.Repeat("a", 64)
	self := list(entry(wrong, len(list(entry(wrong, 100, index))), index))
	chain := []string{}
	below := list()
	for range 20 {
		chain = append(chain, blob(sum(below)), below)
		below = list(of(below, index))
	}
	top := list()
	wide := []string{blob(sum(top)), top}
	for i := 1; i < maxNesting; i++ {
		top = list(slices.Repeat([]string{of(top, index)}, maxEntries)...)
		wide = append(wide, blob(sum(top)), top)
	}
	const config = `{"architecture":"amd64","os":"linux"}`
	image := `{"config":` + of(config, "application/vnd.oci.image.config.v1+json") + `,"layers":[]}`
	named := func(target string) []string {
		return []string{"index.json", list(target), blob(sum(image)), image, blob(sum(config)), config}
	}
	for name, test := range map[string]struct {
		files []string
		want  string // part of the expected error; "" means that no error is expected
	}{
		"itself":                {[]string{"index.json", self, blob(wrong), self}, "blob sha256:" + wrong + " has another content"},
		"a chain":               {append([]string{"index.json", below}, chain...), "indexes are nested more than 8 deep"},
		"a wide tree":           {append([]string{"index.json", list(of(top, index))}, wide...), ""},
		"an image":              {named(of(image, manifest)), ""},
		"a manifest as index":   {named(of(image, index)), "is an index with a config or layers"},
		"an unknown type":       {named(of(image, "application/x-anything")), "is not that of an image"},
		"two types":             {named(of(image, manifest) + "," + of(image, index)), "has two media types"},
		"its own type":          {[]string{"index.json", list(of(`{"mediaType":"`+index+`","config":{}}`, manifest)), blob(sum(`{"mediaType":"` + index + `","config":{}}`)), `{"mediaType":"` + index + `","config":{}}`}, "its media type is"},
		"other content":         {[]string{"index.json", list(entry(sum(image), len(config), manifest)), blob(sum(image)), config}, "has another content"},
		"other config":          {[]string{"index.json", list(of(image, manifest)), blob(sum(image)), image, blob(sum(config)), strings.Replace(config, "linux", "LINUX", 1)}, "has another content"},
		"no digest":             {[]string{"index.json", list(entry("ab", len(config), manifest)), blob("ab"), config}, "invalid checksum digest length"},
		"entries":               {[]string{"index.json", list(slices.Repeat([]string{"{}"}, maxEntries+1)...)}, "index.json has more than 1000 entries"},
		"docker's layers":       {[]string{"manifest.json", `[{"Config":"c","Layers":["c"` + strings.Repeat(`,"c"`, maxEntries) + `]}]`, "c", "{}"}, "more than 1000 layers"},
		"docker's blobs":        {[]string{"manifest.json", `[` + strings.Repeat(`{"Config":"c","Layers":["c"`+strings.Repeat(`,"c"`, 900)+`]},`, 20) + `{"Config":"c"}]`, "c", "{}"}, "more than 10000 blobs"},
		"a config that is none": {[]string{"manifest.json", `[{"Config":"c"}]`, "c", `{"config":{"User":5}}`}, "c: json: cannot unmarshal number"},
		"a large config":        {[]string{"manifest.json", `[{"Config":"c"}]`, "c", `{"a":"` + strings.Repeat("x", maxDocument) + `"}`}, "c is longer than 4194304 bytes"},
	} {
		a, err := readTarball(t.Context(), tarOf(t, test.files...))
		if err == nil {
			_, _, err = a.images()
		}
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %.300v, want %q", name, err, test.want)
		}
	}
}

// TestReadTarballEnds checks that readTarball returns the context's cause when the context is done,
// even if the archive is large.
func TestReadTarballEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	if _, err := readTarball(ctx, tarOf(t, "a", "b")); !errors.Is(err, stopped) {
		t.Error(err)
	}
}

// ociOf writes an OCI archive of one image without layers under a name. It returns the digest of the
// manifest, too.
func ociOf(t testing.TB, annotation, name string) (*os.File, string) {
	t.Helper()
	sum := func(text string) string {
		hash := sha256.Sum256([]byte(text))
		return hex.EncodeToString(hash[:])
	}
	const config = `{"os":"linux","architecture":"` + runtime.GOARCH + `"}`
	manifest := fmt.Sprintf(`{"config":{"digest":"sha256:%s","size":%d,"mediaType":"a/c"}}`, sum(config), len(config))
	digest := "sha256:" + sum(manifest)
	name = strings.ReplaceAll(name, "DIGEST", digest)
	return tarOf(t, "index.json", fmt.Sprintf(`{"manifests":[{"digest":%q,"size":%d,"mediaType":"application/vnd.oci.image.manifest.v1+json","annotations":{%q:%q}}]}`, digest, len(manifest), annotation, name),
		"blobs/sha256/"+sum(manifest), manifest, "blobs/sha256/"+sum(config), config), digest
}

// TestNamesWithDigests checks that an archive cannot claim the digest of another image, in any form of
// the name: a container whose image is pinned by this digest would run the archive's image.
func TestNamesWithDigests(t *testing.T) {
	other := strings.Repeat("1", 64)
	for _, name := range []string{"victim@sha256:" + other, "victim:1@sha256:" + other, "registry.example:5000/a/victim@sha256:" + other, "localhost/victim@sha512:" + other + other,
		"VICTIM.example/victim@sha256:" + other, "victim@sha256:" + strings.ToUpper(strings.Repeat("a", 64)), "victim@md5:" + other[:32], "@DIGEST", "sha256:" + other + "@sha256:" + other, other} {
		for _, annotation := range nameNotes {
			f, _ := ociOf(t, annotation, name)
			if a, err := Read(t.Context(), f); err == nil {
				t.Errorf("%s in %s: accepted as %v", name, annotation, a.Images())
			}
		}
		f := tarOf(t, "c.json", "{}", "manifest.json", fmt.Sprintf(`[{"Config":"c.json","RepoTags":["web:1",%q]}]`, name))
		if a, err := Read(t.Context(), f); err == nil {
			t.Errorf("%s in a docker-archive: accepted as %v", name, a.Images())
		}
	}
	f, digest := ociOf(t, nameNotes[0], "victim:1@DIGEST")
	a, err := Read(t.Context(), f)
	if err != nil || len(a.Images()) != 1 || !slices.Equal(a.Images()[0].Names, []string{"docker.io/library/victim@" + digest}) || a.Images()[0].Digest != digest {
		t.Errorf("the image's own digest: %+v %v", a, err)
	}
	f, digest = ociOf(t, nameNotes[1], "victim:1")
	if a, err = Read(t.Context(), f); err == nil {
		err = a.AddDigestNames()
	}
	if err != nil || !slices.Equal(a.Images()[0].Names, []string{"docker.io/library/victim:1", "docker.io/library/victim@" + digest}) {
		t.Errorf("%+v %v", a, err)
	}
}

// names are the images of a containerd, by name.
type names struct {
	imagesapi.ImagesClient
	digests map[string]string
}

func (n names) Get(_ context.Context, r *imagesapi.GetImageRequest, _ ...grpc.CallOption) (*imagesapi.GetImageResponse, error) {
	digest, ok := n.digests[r.Name]
	if !ok {
		return nil, status.Error(codes.NotFound, "image not found")
	}
	return &imagesapi.GetImageResponse{Image: &imagesapi.Image{Name: r.Name, Target: &types.Descriptor{Digest: digest}}}, nil
}

func (n names) Create(_ context.Context, r *imagesapi.CreateImageRequest, _ ...grpc.CallOption) (*imagesapi.CreateImageResponse, error) {
	if n.digests[r.Image.Name] != "" {
		return nil, status.Error(codes.AlreadyExists, "image exists")
	}
	n.digests[r.Image.Name] = r.Image.Target.Digest
	return nil, nil
}

func (n names) Update(_ context.Context, r *imagesapi.UpdateImageRequest, _ ...grpc.CallOption) (*imagesapi.UpdateImageResponse, error) {
	n.digests[r.Image.Name] = r.Image.Target.Digest
	return nil, nil
}

// TestMovedName checks that a load reports which image a name referred to before.
func TestMovedName(t *testing.T) {
	n := names{digests: map[string]string{}}
	for _, step := range []struct{ digest, before string }{{"sha256:1", ""}, {"sha256:1", ""}, {"sha256:2", "sha256:1"}} {
		before, err := nameImage(t.Context(), n, "docker.io/library/web:1", descriptor{Digest: step.digest})
		if err != nil || before != step.before || n.digests["docker.io/library/web:1"] != step.digest {
			t.Errorf("%+v: before %q, now %v, %v", step, before, n.digests, err)
		}
	}
}

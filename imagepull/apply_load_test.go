package imagepull

import (
	"archive/tar"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tarOf writes an archive of files by name.
func tarOf(t *testing.T, files ...string) *os.File {
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
	a, err := readArchive(tarOf(t, "a/layer.tar", "one", "b/layer.tar", "-> ../a/layer.tar", "c.tar", "\x1f\x8bzipped", "c.json", "{}",
		"manifest.json", `[{"Config":"c.json","RepoTags":["web:1"],"Layers":["a/layer.tar","b/layer.tar","c.tar"]}]`))
	if err != nil {
		t.Fatal(err)
	}
	images, blobs, err := a.images()
	if err != nil || len(images) != 1 || len(blobs) != 5 {
		t.Fatalf("%v %v %v", images, blobs, err)
	}
	if names, err := fullNames(images[0].names); err != nil || names[0] != "docker.io/library/web:1" {
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
		"is no OCI archive and no docker-archive": tarOf(t, "x", "y"),
		"c.json is not in the archive":            tarOf(t, "manifest.json", `[{"Config":"c.json"}]`),
		"index.json: ":                            tarOf(t, "index.json", `{`),
		"blob sha256:ab is not in the archive":    tarOf(t, "index.json", `{"manifests":[{"digest":"sha256:ab","size":1,"mediaType":"application/vnd.oci.image.manifest.v1+json"}]}`),
		"blob sha256:ab has no media type":        tarOf(t, "index.json", `{"manifests":[{"digest":"sha256:ab","size":1}]}`),
	} {
		a, err := readArchive(f)
		if err == nil {
			_, _, err = a.images()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

package archive

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// archives are shortened versions of the archives in TestDockerArchive and TestArchives.
var archives = [][]string{
	{"a/layer.tar", "one", "b/layer.tar", "-> ../a/layer.tar", "c.tar", "\x1f\x8bzipped", "c.json", `{"os":"linux","architecture":"amd64"}`,
		"manifest.json", `[{"Config":"c.json","RepoTags":["web:1"],"Layers":["a/layer.tar","b/layer.tar","c.tar"]}]`},
	{"index.json", `{"manifests":[{"digest":"sha256:aa","size":125,"mediaType":"application/vnd.oci.image.manifest.v1+json","annotations":{"org.opencontainers.image.ref.name":"web:1"}}]}`,
		"blobs/sha256/aa", `{"config":{"digest":"sha256:cc","size":37,"mediaType":"a/c"},"layers":[{"digest":"sha256:bb","size":3,"mediaType":"a/b"}]}          `,
		"blobs/sha256/bb", "one", "blobs/sha256/cc", `{"os":"linux","architecture":"amd64"}`},
}

// checkImages checks the properties of an accepted archive on which podrun relies: each blob is
// inside the file, and comes after its children.
func checkImages(t *testing.T, f *os.File) {
	a, err := readTarball(t.Context(), f)
	if err != nil {
		return
	}
	_, blobs, err := a.images()
	if err != nil {
		return
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, b := range blobs {
		if b.data == nil && (b.where.at < 0 || b.where.size < 0 || b.where.at+b.where.size > info.Size()) {
			t.Errorf("blob %s is at %+v of %d bytes", b.desc.Digest, b.where, info.Size())
		}
		for _, c := range b.children {
			if !there[c.Digest] {
				t.Errorf("blob %s points to %s, which comes later", b.desc.Digest, c.Digest)
			}
		}
		there[b.desc.Digest] = true
	}
}

// FuzzTarball checks that podrun either refuses an archive of arbitrary bytes, or finds images with
// the properties that checkImages requires.
func FuzzTarball(f *testing.F) {
	for _, files := range archives {
		data, err := io.ReadAll(tarOf(f, files...))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file := filepath.Join(t.TempDir(), "a.tar")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		opened, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer opened.Close()
		checkImages(t, opened)
	})
}

// FuzzLayout checks the same as FuzzTarball for a valid tar with arbitrary documents.
func FuzzLayout(f *testing.F) {
	f.Add(true, archives[1][1], archives[1][3], archives[1][7])
	f.Add(false, archives[0][9], archives[0][7], archives[0][1])
	f.Fuzz(func(t *testing.T, oci bool, index, first, second string) {
		name := "manifest.json"
		if oci {
			name = "index.json"
		}
		// tarOf would treat a text with this prefix as a link.
		for _, text := range []*string{&index, &first, &second} {
			*text = string(bytes.TrimPrefix([]byte(*text), []byte("-> ")))
		}
		checkImages(t, tarOf(t, name, index, "blobs/sha256/aa", first, "c.json", first, "blobs/sha256/cc", second, "a/layer.tar", second))
	})
}

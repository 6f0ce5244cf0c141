package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/klauspost/compress/zstd"
)

// stage contains the input of an archive. It is a map, because the iteration order of a map
// varies.
func stage() map[string][]byte {
	files := map[string][]byte{
		"bin/containerd": []byte("daemon"), "bin/containerd-shim-runc-v2": []byte("shim"), "bin/runc": []byte("runc"),
		"cni/bridge": []byte("plugin"), "bin/podrun-oci-create": []byte("plugin"), "images/pause.tar": []byte("image"), "share/versions.json": []byte("{}"),
	}
	files["SHA256SUMS"] = sums(files)
	return files
}

// TestCompress checks that the same files produce the same bytes, in the fixed order, without
// times and owners.
func TestCompress(t *testing.T) {
	packed, digest, unpacked, err := compress(stage())
	if err != nil {
		t.Fatal(err)
	}
	again, otherDigest, _, err := compress(stage())
	if err != nil || !bytes.Equal(packed, again) || digest != otherDigest {
		t.Fatalf("another archive: %s, then %s, %v", digest, otherDigest, err)
	}
	r, err := zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderMaxWindow(window))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	plain, err := io.ReadAll(r)
	if err != nil || int64(len(plain)) != unpacked {
		t.Fatalf("%d bytes, not %d, %v", len(plain), unpacked, err)
	}
	var got []string
	files := tar.NewReader(bytes.NewReader(plain))
	for {
		h, err := files.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%o %s", h.Mode, h.Name))
		if h.ModTime.Unix() != 0 || h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" {
			t.Errorf("%s is of %v, %d:%d %s:%s", h.Name, h.ModTime, h.Uid, h.Gid, h.Uname, h.Gname)
		}
	}
	want := []string{"644 SHA256SUMS", "644 share/versions.json", "644 images/pause.tar", "755 cni/bridge", "755 bin/podrun-oci-create",
		"755 bin/runc", "755 bin/containerd-shim-runc-v2", "755 bin/containerd"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSums(t *testing.T) {
	got := string(sums(map[string][]byte{"b": nil, "a": []byte("a\n")}))
	want := "87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7  a\n" +
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b\n"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestPauseImage checks that container tools can read the image.
func TestPauseImage(t *testing.T) {
	archive, err := pauseImage([]byte("program"), "arm64")
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(pauseName, name.StrictValidation)
	if err != nil || !strings.HasSuffix(tag.RegistryStr(), ".invalid") {
		t.Fatalf("%v, %v", tag, err)
	}
	image, err := tarball.Image(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil }, &tag)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Architecture != "arm64" || config.OS != "linux" || config.Config.User != "65535:65535" || strings.Join(config.Config.Entrypoint, " ") != "/pause" {
		t.Errorf("config: %+v", config)
	}
	root := mutate.Extract(image)
	defer root.Close()
	files := tar.NewReader(root)
	if h, err := files.Next(); err != nil || h.Name != "pause" || h.Mode != 0o755 {
		t.Errorf("%+v, %v", h, err)
	}
}

// TestPauseName checks that the image of a changed program has a new name, because podrun does not
// load an image that the runtime already has.
func TestPauseName(t *testing.T) {
	program, err := os.ReadFile("../../embedded/bundle/pause/pause.c")
	if err != nil {
		t.Fatal(err)
	}
	const name, sum = "pause.podrun.invalid/pause:1", "9f6fbb2cb909b6b7d10263b481628426fb63e904fb87aa2adb903f058d0022ef"
	if got := digestOf(program); pauseName != name || got != sum {
		t.Errorf("%s belongs to the program %s, not %s: change its tag in pause.go, and both values in this test", pauseName, sum, got)
	}
}

const mit = `MIT License

Permission is hereby granted, free of charge, to any person obtaining a copy of
this software and associated documentation files (the "Software"), to deal in the
Software without restriction, including without limitation the rights to use, copy,
modify, merge, publish, distribute, sublicense, and/or sell copies of the Software,
and to permit persons to whom the Software is furnished to do so, subject to the
following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED,
INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A
PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT
HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF
CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE
OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.`

const isc = `Permission to use, copy, modify, and/or distribute this software for any purpose with
or without fee is hereby granted, provided that the above copyright notice and this
permission notice appear in all copies.

THE SOFTWARE IS PROVIDED "AS IS" AND THE AUTHOR DISCLAIMS ALL WARRANTIES WITH REGARD TO
THIS SOFTWARE INCLUDING ALL IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS. IN NO
EVENT SHALL THE AUTHOR BE LIABLE FOR ANY SPECIAL, DIRECT, INDIRECT, OR CONSEQUENTIAL
DAMAGES OR ANY DAMAGES WHATSOEVER RESULTING FROM LOSS OF USE, DATA OR PROFITS, WHETHER
IN AN ACTION OF CONTRACT, NEGLIGENCE OR OTHER TORTIOUS ACTION, ARISING OUT OF OR IN
CONNECTION WITH THE USE OR PERFORMANCE OF THIS SOFTWARE.`

const gpl = `This program is free software: you can redistribute it and/or modify it under the terms
of the GNU General Public License as published by the Free Software Foundation, either
version 3 of the License, or (at your option) any later version.

This program is distributed in the hope that it will be useful, but WITHOUT ANY
WARRANTY; without even the implied warranty of MERCHANTABILITY or FITNESS FOR A
PARTICULAR PURPOSE. See the GNU General Public License for more details.

You should have received a copy of the GNU General Public License along with this
program. If not, see <https://www.gnu.org/licenses/>.`

// TestLicenses checks that readLicenses finds the texts in a package's directory and in the parents
// of this directory, up to the root of the module, but not those of packages that are not linked.
// Equal texts must be printed once.
func TestLicenses(t *testing.T) {
	dir := t.TempDir()
	for file, text := range map[string]string{
		"go/LICENSE": mit, "a/LICENSE": "Copyright A\n" + mit, "a/NOTICE": "notice of a", "a/used/deep/COPYING.txt": "Copyright deep\n" + mit,
		"a/unused/LICENSE": "Copyright unused", "a/used/license.go": "package used", "a/LICENSE.docs": "docs", "b/LICENSE": "Copyright A\n" + mit,
	} {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	list := filepath.Join(dir, "packages")
	lines := "example.org/a\tv1\tD/a\tD/a/used/deep\nexample.org/b\tv2\tD/b\tD/b\ngithub.com/podrun/podrun\t\tD\tD\n"
	if err := os.WriteFile(list, []byte(strings.ReplaceAll(lines, "D/", dir+"/")), 0o644); err != nil {
		t.Fatal(err)
	}
	licenses, err := readLicenses(list, filepath.Join(dir, "go"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(licenseText(licenses, []library{{copyright: "of the library"}}, []byte("LGPL")))
	for part, times := range map[string]int{
		"example.org/a v1: MIT\n": 1, "example.org/b v2: MIT\n": 1, "stdlib: MIT\n": 1, "Copyright A\n": 1, "notice of a\n": 1, "Copyright deep\n": 1,
		"example.org/a v1: LICENSE\nexample.org/b v2: LICENSE\n": 1, "unused": 0, "docs": 0, "podrun v": 0, "of the library": 1, "LGPL\n": 1,
	} {
		if got := strings.Count(text, part); got != times {
			t.Errorf("%q occurs %d times, want %d", part, got, times)
		}
	}
}

func TestIdentify(t *testing.T) {
	for _, test := range []struct {
		name, want, wrong string
		texts             map[string]string
	}{
		{"two", "ISC AND MIT", "", map[string]string{"LICENSE": mit, "COPYING": isc}},
		{"a notice states no license", "MIT", "", map[string]string{"LICENSE": mit, "NOTICE": gpl}},
		{"none", "", "the license of module is unknown", map[string]string{"LICENSE": "ask me"}},
		{"no file", "", "the license of module is unknown", nil},
		{"not allowed", "", "the license of module is GPL-3.0-or-later", map[string]string{"LICENSE": mit, "LICENSE.gpl": gpl}},
	} {
		got, err := identify("module", test.texts)
		if got != test.want || (err != nil) != (test.wrong != "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
			t.Errorf("%s: %q, %v", test.name, got, err)
		}
	}
}

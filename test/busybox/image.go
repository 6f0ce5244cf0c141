// Package busybox writes archives with an image of busybox, from which tests of podrun-bundle start pods.
package busybox

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// File is a file of an image.
type File struct {
	tar.Header
	Text string // content of a regular file
}

// applets are the programs in /bin.
var applets = []string{"sh", "httpd", "echo", "sleep", "id", "cat", "ls", "stat", "touch", "nc", "mount", "wget", "grep", "true", "tar", "test", "dd", "mkdir"}

// Write writes an archive with an image for this machine, which every user can read. It contains busybox of
// this machine, /www/index.html with the line "hello", and the given files.
func Write(path, image string, files ...File) error {
	program, err := os.ReadFile("/bin/busybox")
	if err != nil {
		return fmt.Errorf("%w: install busybox-static", err)
	}
	all := []File{{tar.Header{Name: "bin/busybox", Mode: 0o755, Typeflag: tar.TypeReg}, string(program)}}
	for _, applet := range applets {
		all = append(all, File{Header: tar.Header{Name: "bin/" + applet, Linkname: "busybox", Typeflag: tar.TypeSymlink}})
	}
	all = append(append(all, files...), File{tar.Header{Name: "www/index.html", Mode: 0o644, Typeflag: tar.TypeReg}, "hello\n"})
	content, err := archive(all)
	if err != nil {
		return err
	}
	img, err := imageOf(content)
	if err != nil {
		return err
	}
	ref, err := name.NewTag(image)
	if err != nil {
		return err
	}
	return errors.Join(tarball.WriteToFile(path, ref, img), os.Chmod(path, 0o644))
}

func archive(files []File) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		f.Size = int64(len(f.Text))
		if err := w.WriteHeader(&f.Header); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(w, f.Text); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), w.Close()
}

// imageOf returns an image with one layer.
func imageOf(content []byte) (v1.Image, error) {
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config.Env = "linux", runtime.GOARCH, []string{"PATH=/bin"}
	return mutate.ConfigFile(img, config)
}

package run

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/imagepull/archive"
	"github.com/podrun/podrun/problem"
	"github.com/podrun/podrun/run/observe"
)

// LoadImages puts the images of an archive into containerd and returns their
// names. The error is of kind Refused where the runtime is another one, Image
// where the archive cannot be read, Runtime where the runtime does not answer.
// When ctx ends it returns its cause, also while it reads a pipe that sends
// nothing.
func (e *Engine) LoadImages(ctx context.Context, from io.Reader) ([]string, error) {
	version, err := e.Client.Version(ctx)
	if err != nil {
		return nil, imageError("", "read the runtime's version", err)
	}
	conn := e.Client.ImageConn()
	if version.RuntimeName != "containerd" || conn == nil {
		return nil, notContainerd(version.RuntimeName)
	}
	file, done, err := tarWithin(ctx, from)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("read the archive: %w", context.Cause(ctx))
	}
	if err != nil {
		return nil, &problem.Error{Kind: problem.Image, Object: "the archive", Err: err}
	}
	defer done()
	names, err := archive.Load(ctx, conn, file)
	if status.Code(err) == codes.Unimplemented {
		return nil, notContainerd("one that does not let images in")
	}
	if err != nil {
		return names, &problem.Error{Kind: problem.Image, Object: "the archive", Err: errors.New(imagepull.Detail(err)),
			Hint: "it is a tar of 'docker save' or of an OCI layout, as it is or packed by gzip"}
	}
	return names, e.seen(ctx, names)
}

// seen waits until the CRI lists images that were given to containerd: from then
// on every pod can use them.
func (e *Engine) seen(ctx context.Context, names []string) error {
	ctx, cancel := WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for _, name := range names {
		for {
			found, err := e.Client.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: name})
			if err != nil {
				return imageError(name, "find it", err)
			}
			if found != nil {
				if err := imagepull.Preloaded(e.Layout().ImageRecords(), name, found.Id); err != nil {
					return err
				}
				break
			}
			if err := observe.Sleep(ctx, 10*time.Millisecond); err != nil {
				return imageError(name, "find it", err)
			}
		}
	}
	return nil
}

// notContainerd refuses what only containerd can do.
func notContainerd(is string) error {
	hint := "use the runtime's own tool, or a registry on this host"
	if is == "cri-o" {
		hint = "use 'skopeo copy docker-archive:FILE containers-storage:NAME' (oci-archive: for an OCI layout), or a registry on this host"
	}
	return &problem.Error{Kind: problem.Refused, Err: fmt.Errorf("images can be loaded into containerd only, and this is %s", is), Hint: hint}
}

// tarWithin is tarFile until ctx ends. A read from a pipe cannot be interrupted; the
// spool file has no name, and is removed when the process ends.
func tarWithin(ctx context.Context, archive io.Reader) (*os.File, func(), error) {
	type result struct {
		file *os.File
		done func()
		err  error
	}
	ready := make(chan result, 1)
	go func() {
		file, done, err := tarFile(archive)
		ready <- result{file, done, err}
	}()
	select {
	case r := <-ready:
		return r.file, r.done, r.err
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
}

// tarFile returns an archive as an uncompressed file with random access: the input, if it
// is such a file, otherwise a copy.
func tarFile(archive io.Reader) (file *os.File, done func(), err error) {
	f, ok := archive.(*os.File)
	in := bufio.NewReader(archive)
	magic, err := in.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	var from io.Reader = in
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		if from, err = gzip.NewReader(in); err != nil {
			return nil, nil, err
		}
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}), bytes.HasPrefix(magic, []byte{0xfd, '7', 'z', 'X', 'Z'}), bytes.HasPrefix(magic, []byte("BZh")):
		return nil, nil, errors.New("is packed by zstd, xz or bzip2: unpack it first, as in 'zstdcat FILE | podrun image load -'")
	case ok:
		if whole, err := regular(f); err == nil && whole {
			_, err := f.Seek(0, io.SeekStart)
			return f, func() {}, err
		}
	}
	if file, err = spool(from); err != nil {
		return nil, nil, err
	}
	return file, func() { file.Close() }, nil
}

func regular(f *os.File) (bool, error) {
	if f == nil {
		return false, nil
	}
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	return info.Mode().IsRegular(), nil
}

// spool copies input that can be read only once into an unnamed file.
func spool(r io.Reader) (*os.File, error) {
	f, err := os.CreateTemp("", "podrun-load-")
	if err != nil {
		return nil, fmt.Errorf("keep the archive: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if _, err := io.Copy(f, r); err != nil {
		return nil, errors.Join(fmt.Errorf("keep the archive: %w", err), f.Close())
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

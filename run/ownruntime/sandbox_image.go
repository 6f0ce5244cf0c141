package ownruntime

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/imagepull/archive"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/trace"
	"github.com/podrun/podrun/internal/wait"
)

// pause is the sandbox image of the embedded runtime, in the files of an unpacked archive.
type pause struct {
	file    *os.File
	archive *archive.Archive
	digest  string   // the digest of the manifest
	names   []string // the name with a tag, then the name with the digest
}

// ownPause is the sandbox image of the embedded runtime, in its files and in containerd.
type ownPause struct{ runtime *Runtime }

// open opens the sandbox image of an unpacked archive. The caller must close the file.
func (o ownPause) open(ctx context.Context, digest string) (*pause, error) {
	path := filepath.Join(o.runtime.layout.Unpacked(digest), "images", "pause.tar")
	file, err := hostfile.Open(path)
	if err != nil {
		return nil, err
	}
	p := &pause{file: file}
	if p.archive, err = archive.Read(ctx, file); err == nil {
		err = p.archive.AddDigestNames()
	}
	if err == nil && len(p.archive.Images()) != 1 {
		err = errors.New("does not contain exactly one image")
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	image := p.archive.Images()[0]
	p.digest = image.Digest
	p.names = image.Names
	return p, nil
}

// reference returns the name with the digest.
func (p *pause) reference() string { return p.names[len(p.names)-1] }

// load loads the sandbox image into the embedded runtime, because no registry serves this image. It
// also replaces another image that has one of its names.
func (p *pause) load(ctx context.Context, client *cri.Client) error {
	defer trace.Begin(ctx, "load the sandbox image", "")()
	if there, err := p.loaded(ctx, client); err != nil || there {
		return err
	}
	if _, err := p.archive.Load(ctx, client.Images.Conn()); err != nil {
		return err
	}
	ctx, cancel := wait.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		if there, err := p.loaded(ctx, client); err != nil || there {
			return err
		}
		if err := wait.Sleep(ctx, 2*time.Millisecond); err != nil {
			return err
		}
	}
}

// loaded reports whether all names refer to this image, all its blobs can be read, and the CRI plugin
// lists it.
func (p *pause) loaded(ctx context.Context, client *cri.Client) (bool, error) {
	for _, name := range p.names {
		digest, err := archive.DigestOf(ctx, client.Images.Conn(), name)
		if err != nil || digest != p.digest {
			return false, err
		}
	}
	if lost, err := archive.Lost(ctx, client.Images.Conn(), p.reference(), true); err != nil || lost != "" {
		return false, err
	}
	image, err := client.Images.Status(ctx, &runtimeapi.ImageSpec{Image: p.reference()})
	return image != nil, err
}

// load loads the sandbox image of an unpacked archive into the running embedded runtime.
func (o ownPause) load(ctx context.Context, p *pause) error {
	client, err := o.runtime.client()
	if err == nil {
		defer client.Close()
		err = p.load(ctx, client)
	}
	if err != nil {
		return pauseError(err)
	}
	return nil
}

// restore loads the sandbox image into an embedded runtime that runs already, unless it has the
// image.
func (o ownPause) restore(ctx context.Context, digest string) error {
	p, err := o.open(ctx, digest)
	if err != nil {
		return pauseError(err)
	}
	defer p.file.Close()
	return o.load(ctx, p)
}

func pauseError(err error) error {
	return &problem.Error{Kind: problem.Runtime, Object: "embedded runtime", Op: "load its sandbox image", Err: err}
}

// check returns why the running embedded runtime does not use podrun's sandbox image; nil if
// it uses that image, or does not run, or if the user may not check it.
func (o ownPause) check(ctx context.Context) error {
	last := embedded.ReadDaemon(ctx, o.runtime.layout)
	if !last.Usable(ctx, o.runtime.layout) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, embedded.AnswerWithin)
	defer cancel()
	err := o.compare(ctx, last.Digest)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

func (o ownPause) compare(ctx context.Context, digest string) error {
	p, err := o.open(ctx, digest)
	if err != nil {
		return err
	}
	defer p.file.Close()
	name, err := embedded.ReadSandboxImage(ctx, o.runtime.layout)
	if err != nil {
		return err
	}
	if !slices.Contains(p.names, name) {
		return fmt.Errorf("the configuration of containerd refers to %q, not to %s", name, p.reference())
	}
	client, err := o.runtime.client()
	if err != nil {
		return err
	}
	defer client.Close()
	present, err := archive.DigestOf(ctx, client.Images.Conn(), name)
	switch {
	case err != nil:
		return err
	case present == "":
		return fmt.Errorf("%s is not present", name)
	case present != p.digest:
		return fmt.Errorf("%s refers to an image with the digest %s, not to podrun's with the digest %s", name, present, p.digest)
	}
	lost, err := archive.Lost(ctx, client.Images.Conn(), name, true)
	if err == nil && lost != "" {
		err = lostBlob{name, lost}
	}
	return err
}

// lostBlob is the error for an image of which containerd has lost a blob.
type lostBlob struct{ name, digest string }

func (l lostBlob) Error() string {
	return fmt.Sprintf("containerd has lost the blob %s of %s", l.digest, l.name)
}

// repair loads the sandbox image again if containerd does not use it or has lost a part of it. It reports
// whether it did so.
func (o ownPause) repair(ctx context.Context) (bool, error) {
	found := o.check(ctx)
	if found == nil || unanswered(found) {
		return false, nil
	}
	if err := o.restore(ctx, embedded.ReadDaemon(ctx, o.runtime.layout).Digest); err != nil {
		return false, err
	}
	if err := o.check(ctx); err != nil {
		return false, err
	}
	o.runtime.Warn(problem.List{{Warning: true, Object: "embedded runtime", Message: "podrun loaded the sandbox image again: " + found.Error()}})
	return true, nil
}

// unanswered reports whether containerd has not answered, so that the state of the image is unknown.
func unanswered(err error) bool {
	switch status.Code(err) {
	case codes.DeadlineExceeded, codes.Unavailable, codes.Canceled:
		return true
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/imagepull/archive"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
)

// LoadImages loads the images of an archive into containerd and returns their names. The
// error is of kind Refused if the runtime is not containerd, Image if the archive cannot be
// read, and Runtime if the runtime does not respond. When ctx ends, LoadImages returns its
// cause, even if it is blocked reading from a pipe.
func (e *Engine) LoadImages(ctx context.Context, from io.Reader) ([]string, error) {
	version, err := e.Client.Version(ctx)
	if err != nil {
		return nil, imageError("", "read the runtime's version", err)
	}
	conn := e.Client.ImageConn()
	if version.RuntimeName != "containerd" || conn == nil {
		return nil, notContainerd(version.RuntimeName)
	}
	file, done, err := tarWithin(ctx, e.Settings.RootDir, from)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("read the archive: %w", context.Cause(ctx))
	}
	if err != nil {
		return nil, &problem.Error{Kind: problem.Image, Object: "image archive", Err: err}
	}
	defer done()
	names, err := archive.Load(ctx, conn, file)
	if status.Code(err) == codes.Unimplemented {
		return nil, notContainerd("a runtime without its image services")
	}
	if err != nil {
		return names, &problem.Error{Kind: problem.Image, Object: "image archive", Err: errors.New(imagepull.Detail(err)),
			Hint: "use a tar archive from 'docker save' or of an OCI layout, optionally compressed with gzip"}
	}
	return names, e.seen(ctx, names)
}

// seen waits until the CRI plugin lists the images that podrun loaded into containerd. Pods cannot
// use them before that.
func (e *Engine) seen(ctx context.Context, names []string) error {
	ctx, cancel := WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for _, name := range names {
		for {
			found, err := e.Client.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: name})
			if err != nil {
				return imageError(name, "get its status", err)
			}
			if found != nil {
				if err := imagepull.Preloaded(e.Layout().ImageRecords(), name, found.Id); err != nil {
					return err
				}
				break
			}
			if err := wait.Sleep(ctx, 10*time.Millisecond); err != nil {
				return imageError(name, "get its status", err)
			}
		}
	}
	return nil
}

// notContainerd returns the error for an operation that only containerd supports.
func notContainerd(is string) error {
	hint := "use the runtime's own tool, or a registry on this host"
	if is == "cri-o" {
		hint = "use 'skopeo copy docker-archive:FILE containers-storage:NAME' (for an OCI layout, oci-archive:FILE), or a registry on this host"
	}
	return &problem.Error{Kind: problem.Refused, Err: fmt.Errorf("podrun can load images only into containerd, but the runtime is %s", is), Hint: hint}
}

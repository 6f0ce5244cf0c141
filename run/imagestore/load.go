package imagestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/imagepull/archive"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/node"
)

// Load loads the images of an archive into containerd. The report has one entry for each name that containerd has
// loaded, also if there is an error. The error is of kind Refused if the runtime is not containerd, Image if the archive
// cannot be read, and Runtime if the runtime does not respond. When ctx ends, Load returns its cause, even if it is
// blocked reading from a pipe.
func Load(ctx context.Context, n *node.Node, from io.Reader) (Report, error) {
	if err := n.CheckImagePolicy(); err != nil {
		return nil, err
	}
	version, err := n.Client.Version(ctx)
	if err != nil {
		return nil, imageError("", "read the runtime's version", err)
	}
	conn := n.Client.Images.Conn()
	if version.RuntimeName != "containerd" || conn == nil {
		return nil, notContainerd(version.RuntimeName, "load images only into containerd", loadElsewhere)
	}
	file, done, err := tarWithin(ctx, n.Settings.RootDir, from)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("read the archive: %w", context.Cause(ctx))
	}
	if err != nil {
		return nil, &problem.Error{Kind: problem.Image, Object: "image archive", Err: err}
	}
	defer done()
	images, err := archive.Read(ctx, file)
	if err != nil {
		return nil, loadError(err)
	}
	if err := mayLoad(ctx, n, conn, images); err != nil {
		return nil, err
	}
	loaded, err := images.Load(ctx, conn)
	names := make([]string, len(loaded))
	for i, l := range loaded {
		names[i] = l.Name
	}
	n.SendWarnings(moved(loaded))
	if err != nil {
		return named(names, Loaded), loadError(err)
	}
	return named(names, Loaded), seen(ctx, n, names)
}

// loadError returns the error for an archive that could not be loaded.
func loadError(err error) error {
	if status.Code(err) == codes.Unimplemented {
		return notContainerd("a runtime without its image services", "load images only into containerd", loadElsewhere)
	}
	if e, ok := errors.AsType[*problem.Error](err); ok {
		return e
	}
	return &problem.Error{Kind: problem.Image, Object: "image archive", Err: errors.New(imagepull.Detail(err)),
		Hint: "use a tar archive from 'docker save' or of an OCI layout, optionally compressed with gzip"}
}

// mayLoad refuses an archive with an image that would replace the sandbox image, because the
// runtime runs the sandbox image for every pod. The author of an archive chooses the names in it.
// The error is of kind Refused or Runtime.
func mayLoad(ctx context.Context, n *node.Node, conn grpc.ClientConnInterface, a *archive.Archive) error {
	facts, err := discover.ReadBasics(ctx, n.Client, n.Settings)
	if err != nil {
		return err
	}
	sandbox, err := discover.SandboxNames(ctx, n.Client, facts.Runtime)
	if err != nil {
		return imageError("", "list the images", err)
	}
	for _, image := range a.Images() {
		for _, name := range image.Names {
			if n.ImagesVerified() {
				if err := n.VerifyImage(ctx, name, image.Target); err != nil {
					return &problem.Error{Kind: problem.Image, Object: "image " + name, Err: err,
						Hint: "the setting imagePolicy: verified permits only images that all image verifiers accept"}
				}
			}
			if identity.ReservedImage(name) {
				return &problem.Error{Kind: problem.Refused, Object: "image " + name,
					Err:  errors.New("the name is reserved for images that podrun itself provides"),
					Hint: "save the image under another name, if you trust the archive"}
			}
			if !slices.Contains(sandbox, name) {
				continue
			}
			present, err := archive.DigestOf(ctx, conn, name)
			if err != nil {
				return imageError(name, "get its digest", err)
			}
			if present == "" {
				n.WarnOnce(problem.Problem{Warning: true, Object: "image " + name,
					Message: "is the sandbox (pause) image of the runtime, which every pod of this host runs: load it only from an archive that you trust"})
			}
			if present != "" && present != image.Digest {
				return &problem.Error{Kind: problem.Refused, Object: "image " + name,
					Err:  errors.New("is the sandbox (pause) image of the runtime, and the archive has another image under this name"),
					Hint: fmt.Sprintf("if you trust the archive, run 'podrun image rm --force %s' first", name)}
			}
		}
	}
	return nil
}

// moved returns a warning for each name that referred to another image before a load.
func moved(loaded []archive.Loaded) problem.List {
	var out problem.List
	for _, l := range loaded {
		if l.Before != "" {
			out = append(out, problem.Problem{Warning: true, Object: "image " + l.Name,
				Message: fmt.Sprintf("the name now refers to %s, no longer to %s: new containers use the loaded image", l.Digest, l.Before)})
		}
	}
	return out
}

// listedWithin limits the time until the CRI plugin lists an image. It requires some milliseconds.
const listedWithin = 10 * time.Second

// seen waits until the CRI plugin lists the images that podrun loaded into containerd. Pods cannot
// use them before that.
func seen(ctx context.Context, n *node.Node, names []string) error {
	bounded, cancel := context.WithTimeout(ctx, listedWithin)
	defer cancel()
	for _, name := range names {
		for {
			found, err := n.Client.Images.Status(ctx, &runtimeapi.ImageSpec{Image: name})
			if err != nil {
				return imageError(name, "get its status", err)
			}
			if found != nil {
				if err := imagepull.Preloaded(n.Layout().ImageRecords(), name, found); err != nil {
					return err
				}
				break
			}
			if err := wait.Sleep(bounded, 10*time.Millisecond); err != nil && ctx.Err() == nil {
				return &problem.Error{Kind: problem.Image, Object: "image " + name,
					Err:  fmt.Errorf("containerd has loaded the image, but its CRI plugin did not list it within %s, so that pods cannot use it", listedWithin),
					Hint: "check that the archive contains an image, and look for its name in containerd's log"}
			} else if err != nil {
				return fmt.Errorf("image %s: %w", name, context.Cause(ctx))
			}
		}
	}
	return nil
}

// notContainerd returns the error for an operation that only containerd supports. onCRIO is the hint for CRI-O.
func notContainerd(is, operation, onCRIO string) error {
	hint := "use the runtime's own tool, or a registry on this host"
	if is == "cri-o" {
		hint = onCRIO + ", or a registry on this host"
	}
	return &problem.Error{Kind: problem.Refused, Err: fmt.Errorf("podrun can %s, but the runtime is %s", operation, is), Hint: hint}
}

// loadElsewhere is the hint for CRI-O.
const loadElsewhere = "use 'skopeo copy docker-archive:FILE containers-storage:NAME' (for an OCI layout, oci-archive:FILE)"

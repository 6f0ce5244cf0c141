package critest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/distribution/reference"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Image is an image of the runtime or in a registry.
type Image struct {
	// as in a manifest, such as busybox or host:5000/app@sha256:…
	Name string
	ID   string // "" means sha256: and a hash of the name
	User string // UID or name, optionally with :group; "" means root
	Size uint64 // in bytes; 0 means 1 MiB
	Arch string // GOARCH; "" means this machine's architecture

	// Entrypoint and Cmd are the command that a container runs if the container's config specifies
	// none. If there is no command, or if the shell does not support it, the container runs until
	// it is stopped. It then exits with code 0.
	Entrypoint, Cmd []string
	Env             []string // KEY=value

	// These are for an image in a registry: the duration of a pull, a channel that the test must
	// close before a pull returns (may be nil), the error with which a pull fails, the number of
	// times that it fails (0 means always), and the required credentials.
	PullDelay          time.Duration
	PullUntil          <-chan struct{}
	PullErr            error
	FailTimes          int
	Username, Password string
}

// AddImage adds an image to the runtime and to its registry.
func (rt *Runtime) AddImage(img Image) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	here := rt.filled(img)
	rt.images[here.Name] = here
	rt.remotes[here.Name] = here
}

// AddRemote adds an image to the registry only.
func (rt *Runtime) AddRemote(img Image) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	remote := rt.filled(img)
	rt.remotes[remote.Name] = remote
}

func (rt *Runtime) filled(i Image) *Image {
	if name, err := normal(i.Name); err == nil {
		i.Name = name
	}
	if i.ID == "" {
		i.ID = "sha256:" + digest(i.Name)
	}
	if rt.options.profile.PlainIDs {
		i.ID = strings.TrimPrefix(i.ID, "sha256:")
	}
	if i.Arch == "" {
		i.Arch = runtime.GOARCH
	}
	if i.Size == 0 {
		i.Size = 1 << 20
	}
	return &i
}

// normal adds the default registry and the default tag to a name.
func normal(name string) (string, error) {
	named, err := reference.ParseDockerRef(name)
	if err != nil {
		return "", err
	}
	return named.String(), nil
}

// findImage finds an image by its ID, by a prefix of the ID, or by a name. It returns nil if the
// image is not present. The caller must hold rt.mu.
func (rt *Runtime) findImage(ref string) *Image {
	for _, name := range sortedKeys(rt.images) {
		img := rt.images[name]
		hash := strings.TrimPrefix(img.ID, "sha256:")
		if ref == img.ID || ref == hash || len(ref) >= 8 && strings.HasPrefix(hash, ref) || ref == img.repoDigest() {
			return img
		}
	}
	name, err := normal(ref)
	if err != nil {
		return nil
	}
	if img := rt.images[name]; img != nil || !rt.options.anyImage {
		return img
	}
	img := rt.filled(Image{Name: ref})
	rt.images[img.Name] = img
	return img
}

// tag returns the image's name if it has a tag, otherwise its ID.
func (i *Image) tag() string {
	if strings.Contains(i.Name, "@") {
		return i.ID
	}
	return i.Name
}

// repoDigest returns the image's name with its digest.
func (i *Image) repoDigest() string {
	if strings.Contains(i.Name, "@") {
		return i.Name
	}
	at := strings.LastIndex(i.Name, ":")
	if at < 0 {
		return i.ID
	}
	return i.Name[:at] + "@sha256:" + digest("manifest of "+i.ID)
}

// uid returns the ID of the image's user, or 0 if the user is a name.
func (i *Image) uid() int64 {
	user, _, _ := strings.Cut(i.User, ":")
	n, err := strconv.ParseInt(user, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// proto returns an image with all its names. The caller must hold rt.mu.
func (rt *Runtime) proto(i *Image) *runtimeapi.Image {
	img := &runtimeapi.Image{Id: i.ID, Size: i.Size}
	for _, name := range sortedKeys(rt.images) {
		other := rt.images[name]
		if other.ID != i.ID {
			continue
		}
		if digest := other.repoDigest(); !slices.Contains(img.RepoDigests, digest) {
			img.RepoDigests = append(img.RepoDigests, digest)
		}
		if !strings.Contains(name, "@") {
			img.RepoTags = append(img.RepoTags, name)
		}
	}
	user, _, _ := strings.Cut(i.User, ":")
	if n, err := strconv.ParseInt(user, 10, 64); err == nil {
		img.Uid = &runtimeapi.Int64Value{Value: n}
	} else {
		img.Username = user
	}
	return img
}

var errNoName = status.Error(codes.Unknown, `can not resolve "" locally: ambiguous digest string`)

// ImageStatus implements the CRI. If the image is not present, it returns neither an image nor
// an error.
func (rt *Runtime) ImageStatus(_ context.Context, r *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if r.GetImage().GetImage() == "" {
		return nil, errNoName
	}
	img := rt.findImage(r.GetImage().GetImage())
	if img == nil {
		return &runtimeapi.ImageStatusResponse{}, nil
	}
	resp := &runtimeapi.ImageStatusResponse{Image: rt.proto(img)}
	if r.GetVerbose() {
		if rt.options.terse {
			return nil, status.Error(codes.Unimplemented, "verbose image status is not supported")
		}
		resp.Info = map[string]string{"info": fmt.Sprintf(`{"imageSpec":{"architecture":%q,"os":"linux","config":{"User":%q}}}`, img.Arch, img.User)}
	}
	return resp, nil
}

// ListImages implements the CRI. It ignores the filter, as containerd 1.6 does.
func (rt *Runtime) ListImages(context.Context, *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	resp := &runtimeapi.ListImagesResponse{}
	seen := map[string]bool{}
	for _, name := range sortedKeys(rt.images) {
		if img := rt.images[name]; !seen[img.ID] {
			seen[img.ID] = true
			resp.Images = append(resp.Images, rt.proto(img))
		}
	}
	return resp, nil
}

// PullImage implements the CRI. Its errors have the format of the profile's runtime.
func (rt *Runtime) PullImage(ctx context.Context, r *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	ref := r.GetImage().GetImage()
	name, err := normal(ref)
	if err != nil {
		return nil, rt.options.profile.badName(ref, err)
	}
	rt.mu.Lock()
	remote := rt.remotes[name]
	rt.mu.Unlock()
	if remote == nil && rt.options.anyImage {
		remote = rt.filled(Image{Name: ref})
	}
	if remote == nil {
		return nil, rt.options.profile.missing(name)
	}
	if err := remote.arrive(ctx); err != nil {
		return nil, err
	}
	if err := rt.refuse(remote, r.GetAuth()); err != nil {
		return nil, err
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if old := rt.images[name]; old != nil && old.ID != remote.ID {
		// The tag moves. The runtime keeps the previous image by its digest.
		kept := *old
		kept.Name = old.repoDigest()
		rt.images[kept.Name] = &kept
	}
	rt.images[name] = remote
	return &runtimeapi.PullImageResponse{ImageRef: remote.ID}, nil
}

// arrive waits until a pull of the image is complete, or ctx ends.
func (i *Image) arrive(ctx context.Context) error {
	if err := delay(ctx, i.PullDelay); err != nil || i.PullUntil == nil {
		return err
	}
	select {
	case <-i.PullUntil:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// refuse returns the error with which the registry refuses a pull, or nil.
func (rt *Runtime) refuse(img *Image, auth *runtimeapi.AuthConfig) error {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if img.Username != "" && (auth.GetUsername() != img.Username || auth.GetPassword() != img.Password) {
		return rt.options.profile.denied(img.Name)
	}
	if img.PullErr == nil || img.FailTimes < 0 {
		return nil
	}
	if img.FailTimes > 0 {
		if img.FailTimes--; img.FailTimes == 0 {
			// This was the last failure. Later pulls succeed.
			img.FailTimes = -1
		}
	}
	if _, isStatus := status.FromError(img.PullErr); isStatus {
		return img.PullErr
	}
	return rt.options.profile.unpulled(img.Name, img.PullErr)
}

// RemoveImage implements the CRI. If it is called with an ID, it removes all names of the
// image. CRI-O does not remove an image that a container uses.
func (rt *Runtime) RemoveImage(_ context.Context, r *runtimeapi.RemoveImageRequest) (*runtimeapi.RemoveImageResponse, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if r.GetImage().GetImage() == "" {
		return nil, errNoName
	}
	img := rt.findImage(r.GetImage().GetImage())
	if img == nil {
		return &runtimeapi.RemoveImageResponse{}, nil
	}
	for _, id := range sortedKeys(rt.containers) {
		if rt.options.profile.HoldsImages && rt.containers[id].image.ID == img.ID {
			return nil, status.Errorf(codes.Unknown, "delete image: image used by %s: image is in use by a container", id)
		}
	}
	for name, other := range rt.images {
		if other.ID == img.ID {
			delete(rt.images, name)
		}
	}
	return &runtimeapi.RemoveImageResponse{}, nil
}

// ImageFsInfo implements the CRI.
func (rt *Runtime) ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	var used uint64
	var seen []string
	for _, img := range rt.images {
		if !slices.Contains(seen, img.ID) {
			seen = append(seen, img.ID)
			used += img.Size
		}
	}
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{{
		Timestamp: rt.now(), FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs"},
		UsedBytes: &runtimeapi.UInt64Value{Value: used}, InodesUsed: &runtimeapi.UInt64Value{Value: uint64(len(seen))},
	}}}, nil
}

package discover

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/host"
)

// imageService is an image service that has fixed images, or returns errors.
type imageService struct {
	runtimeapi.ImageServiceClient
	images []*runtimeapi.Image
	err    error
}

func (s imageService) ImageStatus(_ context.Context, r *runtimeapi.ImageStatusRequest, _ ...grpc.CallOption) (*runtimeapi.ImageStatusResponse, error) {
	for _, i := range s.images {
		if i.RepoTags[0] == r.Image.Image {
			return &runtimeapi.ImageStatusResponse{Image: i}, s.err
		}
	}
	return &runtimeapi.ImageStatusResponse{}, s.err
}

func (s imageService) ListImages(context.Context, *runtimeapi.ListImagesRequest, ...grpc.CallOption) (*runtimeapi.ListImagesResponse, error) {
	return &runtimeapi.ListImagesResponse{Images: s.images}, s.err
}

// podrun must find out whether the sandbox image is present. containerd 1.x reports the image's
// name, and 2.x pins the image. For other runtimes, podrun cannot determine this.
func TestSandboxImageHere(t *testing.T) {
	pause := &runtimeapi.Image{Id: "p", RepoTags: []string{"pause:3"}}
	pinned := &runtimeapi.Image{Id: "p", RepoTags: []string{"pause:3"}, Pinned: true}
	another := &runtimeapi.Image{Id: "o", RepoTags: []string{"other:1"}, Pinned: true}
	one, two := host.Runtime{Name: "containerd", Version: "1.7.2", SandboxImg: "pause:3"}, host.Runtime{Name: "containerd", Version: "v2.4.2"}
	for name, test := range map[string]struct {
		runtime host.Runtime
		service imageService
		image   string
		present string
	}{
		"named, here":       {one, imageService{images: []*runtimeapi.Image{pause}}, "pause:3", "yes"},
		"named, away":       {one, imageService{}, "pause:3", "no"},
		"named, no answer":  {one, imageService{err: errors.New("x")}, "pause:3", "unknown"},
		"pinned, here":      {two, imageService{images: []*runtimeapi.Image{pinned}}, "pause:3", "yes"},
		"pinned with more":  {two, imageService{images: []*runtimeapi.Image{pinned, another}}, "", "yes"},
		"pinned, two names": {two, imageService{images: []*runtimeapi.Image{{Id: "p", RepoTags: []string{"alias:1", "pause:3"}, Pinned: true}}}, "", "yes"},
		"none is pinned":    {two, imageService{images: []*runtimeapi.Image{pause}}, "", "no"},
		"pinned, no answer": {two, imageService{err: errors.New("x")}, "", "unknown"},
		"another runtime":   {host.Runtime{Name: "cri-o", Version: "1.31"}, imageService{}, "", "unknown"},
	} {
		got := SandboxImage(t.Context(), cri.New(nil, test.service, time.Minute), test.runtime)
		present := "unknown"
		if got.Present != nil {
			present = map[bool]string{true: "yes", false: "no"}[*got.Present]
		}
		if got.Name != test.image || present != test.present {
			t.Errorf("%s: %q %s", name, got.Name, present)
		}
	}
}

// TestSandboxNames checks that podrun knows the names of the images that a load must not replace:
// the reported one in its full form, and those of pinned images.
func TestSandboxNames(t *testing.T) {
	service := imageService{images: []*runtimeapi.Image{
		{Id: "a", RepoTags: []string{"registry.example/app:1"}},
		{Id: "p", RepoTags: []string{"registry.example/pause:3"}, RepoDigests: []string{"registry.example/pause@sha256:1"}, Pinned: true}}}
	names, err := SandboxNames(t.Context(), cri.New(nil, service, time.Minute), host.Runtime{Name: "containerd", SandboxImg: "pause"})
	if want := []string{"docker.io/library/pause:latest", "registry.example/pause:3", "registry.example/pause@sha256:1"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%v %v, want %v", names, err, want)
	}
	if _, err := SandboxNames(t.Context(), cri.New(nil, imageService{err: errors.New("x")}, time.Minute), host.Runtime{}); err == nil {
		t.Error("the error of the runtime is lost")
	}
}

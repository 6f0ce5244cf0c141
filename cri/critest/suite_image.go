package critest

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func (s *suite) testImage(t *testing.T) {
	spec := &runtimeapi.ImageSpec{Image: s.cfg.Image}
	img, err := s.Images.Status(t.Context(), spec)
	if err != nil || img == nil {
		t.Fatalf("ImageStatus: %v, %v", img, err)
	}
	if strings.HasPrefix(img.GetId(), "sha256:") == s.cfg.Profile.PlainIDs || img.GetSize() == 0 || len(img.GetRepoTags()) == 0 || len(img.GetRepoDigests()) == 0 {
		t.Errorf("ImageStatus: %v", img)
	}
	if img.GetUid().GetValue() != 0 || img.GetUsername() != "" {
		t.Errorf("the image's user is %v %q, want root", img.GetUid(), img.GetUsername())
	}
	ref, err := s.Images.Pull(t.Context(), spec, nil, nil)
	if err != nil || ref != img.GetId() {
		t.Errorf("PullImage: %q, %v; want the ID %s", ref, err, img.GetId())
	}
	for _, name := range []string{img.GetId(), strings.TrimPrefix(img.GetId(), "sha256:"), img.GetRepoDigests()[0]} {
		same, err := s.Images.Status(t.Context(), &runtimeapi.ImageSpec{Image: name})
		if err != nil || same.GetId() != img.GetId() {
			t.Errorf("ImageStatus of %s: %v, %v", name, same, err)
		}
	}
	resp, err := s.Images.Service.ListImages(t.Context(), &runtimeapi.ListImagesRequest{})
	if err != nil || !slices.ContainsFunc(resp.GetImages(), func(i *runtimeapi.Image) bool { return sameImage(i, img) }) {
		t.Errorf("ListImages: got %v, %v; want a list that contains %v", resp, err, img)
	}
	if fs, err := s.Images.Service.ImageFsInfo(t.Context(), &runtimeapi.ImageFsInfoRequest{}); err != nil || len(fs.GetImageFilesystems()) == 0 {
		t.Errorf("ImageFsInfo: %v, %v", fs, err)
	}
	s.checkImageOfContainer(t, img)
}

// sameImage compares a listed image with the image in ImageStatus. It ignores the specification, because CRI-O sets
// it only in ImageStatus.
func sameImage(listed, shown *runtimeapi.Image) bool {
	shown = proto.CloneOf(shown)
	shown.Spec = listed.GetSpec()
	return proto.Equal(listed, shown)
}

// checkImageOfContainer checks that the status of a container that was created with the image's ID shows the image's
// name and digest.
func (s *suite) checkImageOfContainer(t *testing.T, img *runtimeapi.Image) {
	t.Helper()
	p := s.pod(t)
	config := p.container("app", "true")
	config.Image = &runtimeapi.ImageSpec{Image: img.GetId(), UserSpecifiedImage: s.cfg.Image}
	st := s.status(t, p.create(t, config))
	if st.GetImage().GetImage() != img.GetRepoTags()[0] || st.GetImageRef() != img.GetRepoDigests()[0] {
		t.Errorf("the container's image is %q, its reference %q; want %q and %q",
			st.GetImage().GetImage(), st.GetImageRef(), img.GetRepoTags()[0], img.GetRepoDigests()[0])
	}
}

func (s *suite) testImageUnknown(t *testing.T) {
	at := strings.LastIndex(s.cfg.Image, ":")
	spec := &runtimeapi.ImageSpec{Image: s.cfg.Image[:at] + ":no-such-tag"}
	if img, err := s.Images.Status(t.Context(), spec); err != nil || img != nil {
		t.Errorf("ImageStatus: %v, %v; want nothing", img, err)
	}
	_, err := s.Images.Pull(t.Context(), spec, nil, nil)
	if words := "failed to resolve "; !s.cfg.Profile.crio() && (status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), words)) {
		t.Errorf("got %v, want NotFound: %s", err, words)
	}
	if words := "reading manifest no-such-tag in "; s.cfg.Profile.crio() && (err == nil || !strings.Contains(err.Error(), words)) {
		t.Errorf("got %v, want %s", err, words)
	}
	if _, err := s.Images.Pull(t.Context(), &runtimeapi.ImageSpec{Image: "Not/A:Name!"}, nil, nil); err == nil {
		t.Error("an invalid name was pulled")
	}
	p := s.pod(t)
	config := p.container("app", "true")
	config.Image = spec
	_, err = p.tryCreate(t, config)
	wantCode(t, err, codes.NotFound, codes.Unknown)
	// The name is available again.
	p.create(t, p.container("app", "true"))
	if _, err := s.Images.Service.RemoveImage(t.Context(), &runtimeapi.RemoveImageRequest{Image: spec}); err != nil {
		t.Errorf("RemoveImage of a nonexistent image: %v", err)
	}
}

// testImageInUse checks that a runtime with HoldsImages refuses to remove an image that a container uses. On other
// runtimes, it does not try to remove the image, because tests of other packages use it at the same time.
func (s *suite) testImageInUse(t *testing.T) {
	if !s.cfg.Profile.HoldsImages {
		t.Skip("the runtime would remove the image")
	}
	p := s.pod(t)
	p.sh(t, "app", "sleep 1000")
	_, err := s.Images.Service.RemoveImage(t.Context(), &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: s.cfg.Image}})
	if err == nil || !strings.Contains(err.Error(), "image is in use by a container") {
		t.Errorf("RemoveImage: %v", err)
	}
}

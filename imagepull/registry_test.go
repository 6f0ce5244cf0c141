package imagepull

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/event"
)

// registry is the image service of a runtime. Its fields specify the images that the runtime has
// and can pull, and the duration of a pull.
type registry struct {
	// nil, so that any other method panics
	runtimeapi.ImageServiceClient

	mu        sync.Mutex
	here      map[string]*runtimeapi.Image // images that the runtime has, by reference with the tag :latest
	pull      func(try int, req *runtimeapi.PullImageRequest) error
	slow      map[string]time.Duration
	calls     []string
	tries     map[string]int
	events    []string
	now, most int
}

func newRegistry(here ...string) *registry {
	r := &registry{here: map[string]*runtimeapi.Image{}, slow: map[string]time.Duration{}, tries: map[string]int{}}
	for _, ref := range here {
		r.here[ref] = imageOf(ref)
	}
	return r
}

func imageOf(ref string) *runtimeapi.Image {
	return &runtimeapi.Image{Id: "sha256:" + ref, Size: 1048576}
}

func (r *registry) call(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, fmt.Sprintf(format, args...))
}

func (r *registry) ImageStatus(_ context.Context, req *runtimeapi.ImageStatusRequest, _ ...grpc.CallOption) (*runtimeapi.ImageStatusResponse, error) {
	bare := ""
	if req.Image.Annotations == nil {
		bare = " bare"
	}
	r.call("ImageStatus %s%s", req.Image.Image, bare)
	ref, err := normalize(req.Image.Image)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return &runtimeapi.ImageStatusResponse{Image: r.here[ref]}, nil
}

func (r *registry) ListImages(context.Context, *runtimeapi.ListImagesRequest, ...grpc.CallOption) (*runtimeapi.ListImagesResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &runtimeapi.ListImagesResponse{Images: slices.Collect(maps.Values(r.here))}, nil
}

func (r *registry) PullImage(ctx context.Context, req *runtimeapi.PullImageRequest, _ ...grpc.CallOption) (*runtimeapi.PullImageResponse, error) {
	ref := req.Image.Image
	r.mu.Lock()
	r.tries[ref]++
	try := r.tries[ref]
	r.now++
	r.most = max(r.most, r.now)
	slow := r.slow[ref]
	r.mu.Unlock()
	r.call("PullImage %s", ref)
	defer func() { r.mu.Lock(); r.now--; r.mu.Unlock() }()
	select {
	case <-time.After(slow):
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if r.pull != nil {
		if err := r.pull(try, req); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.here[ref] = imageOf(ref)
	return &runtimeapi.PullImageResponse{ImageRef: "sha256:" + ref}, nil
}

func (r *registry) puller(opt Options) *Puller {
	opt.Emit = func(e event.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, strings.TrimSpace(fmt.Sprintf("%s %s %s: %s", e.Type, e.Reason, e.FieldPath, e.Message)))
	}
	return NewPuller(cri.New(nil, r, time.Minute), opt)
}

func planOf(t *testing.T, spec string) Plan {
	t.Helper()
	plan, problems := New(podOf(t, spec), testID, "")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return plan
}

func container(name, image, policy string) string {
	return fmt.Sprintf("- {name: %s, image: %q, imagePullPolicy: %s}\n", name, image, policy)
}

func wantLines(t *testing.T, what string, got, want []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s:\n%s", what, diff)
	}
}

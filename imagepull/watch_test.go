package imagepull

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	contentapi "github.com/containerd/containerd/api/services/content/v1"
	imagesapi "github.com/containerd/containerd/api/services/images/v1"
	"github.com/containerd/containerd/api/types"
	"google.golang.org/grpc"

	"github.com/podrun/podrun/host/nodeconfig"
)

// storeContent is containerd's content service. It contains manifests and indexes.
type storeContent struct {
	// nil, so that any other method panics
	contentapi.ContentClient
	infos []*contentapi.Info
}

func (s storeContent) List(_ context.Context, r *contentapi.ListContentRequest, _ ...grpc.CallOption) (contentapi.Content_ListClient, error) {
	var found []*contentapi.Info
	for _, i := range s.infos {
		_, manifest := i.Labels[labelChildren+"config"]
		if strings.HasPrefix(r.Filters[0], "labels.") && manifest || slices.Contains(r.Filters, `digest=="`+i.Digest+`"`) {
			found = append(found, i)
		}
	}
	return &infoStream{found: found}, nil
}

type infoStream struct {
	grpc.ClientStream
	found []*contentapi.Info
}

func (s *infoStream) Recv() (*contentapi.ListContentResponse, error) {
	if s.found == nil {
		return nil, io.EOF
	}
	r := &contentapi.ListContentResponse{Info: s.found}
	s.found = nil
	return r, nil
}

// storeImages is containerd's image service: it maps names to digests.
type storeImages struct {
	imagesapi.ImagesClient
	targets map[string]string
	err     error
}

func (s storeImages) List(context.Context, *imagesapi.ListImagesRequest, ...grpc.CallOption) (*imagesapi.ListImagesResponse, error) {
	out := &imagesapi.ListImagesResponse{}
	for name, digest := range s.targets {
		out.Images = append(out.Images, &imagesapi.Image{Name: name, Target: &types.Descriptor{Digest: digest}})
	}
	return out, s.err
}

// TestGiveUp checks that podrun cancels a pull only if no content in the store grows. If the
// registry has not responded, podrun must also be certain that containerd is not unpacking an
// image.
func TestGiveUp(t *testing.T) {
	const limit = 10 * time.Second
	image := &contentapi.Info{Digest: "m", Labels: map[string]string{labelChildren + "config": "c", labelSource + "registry.example": "app"}}
	index := &contentapi.Info{Digest: "i", Labels: map[string]string{labelChildren + "m.0": "m"}}
	layer := map[string]int64{"manifest-m": 0}
	for name, test := range map[string]struct {
		open map[string]int64 // offsets of the ingests that do not grow
		// ref of the ingest of another pull, which grows at these times
		other   map[time.Duration]string
		infos   []*contentapi.Info
		targets map[string]string
		err     error // error that the image service returns
		want    string
	}{
		"nothing comes":                     {open: layer, want: "no data received for 10s"},
		"another pull's content comes":      {open: layer, other: map[time.Duration]string{9 * time.Second: "layer-x", 18 * time.Second: "layer-y"}},
		"another pull's content came":       {open: layer, other: map[time.Duration]string{4 * time.Second: "layer-x"}, want: "no data received for 10s"},
		"no answer":                         {want: "registry registry.example:5000 has not answered for 10s"},
		"no answer to another pull, either": {other: map[time.Duration]string{4 * time.Second: "layer-x"}, want: "registry registry.example:5000 has not answered for 10s"},
		"it may wait for another pull":      {other: map[time.Duration]string{9 * time.Second: "layer-x", 18 * time.Second: "layer-y"}},
		"it may unpack":                     {infos: []*contentapi.Info{image}},
		"nothing is left to unpack":         {infos: []*contentapi.Info{image}, targets: map[string]string{"registry.example:5000/app:0": "m"}, want: "has not answered for 10s"},
		"nor of an index":                   {infos: []*contentapi.Info{image, index}, targets: map[string]string{"registry.example:5000/app:0": "i"}, want: "has not answered for 10s"},
		"the images are not known":          {infos: []*contentapi.Info{image}, err: errors.New("no")},
	} {
		w := &watcher{stall: limit, content: storeContent{infos: test.infos}, images: storeImages{targets: test.targets, err: test.err}}
		ctx, cancel := context.WithCancelCause(t.Context())
		p := &watched{transfer: newTransfer("registry.example:5000/app:1", begun), cancel: cancel}
		// The blobs of this pull are known, so podrun must not count the blobs of another pull as
		// blobs of this one.
		p.candidates["m"] = manifest{digest: "m", blobs: []string{"m"}}
		if test.open == nil {
			clear(p.candidates)
		}
		w.pulls = []*watched{p}
		open := maps.Clone(test.open)
		for at := time.Duration(0); at <= 2*limit; at += time.Second {
			if ref, moves := test.other[at]; moves {
				if open == nil {
					open = map[string]int64{}
				}
				open[ref] = 1
			}
			l := lookAt(at, open)
			w.follow(l)
			p.see(l, nil)
			w.giveUp(ctx, p, l)
		}
		got := ""
		if p.failed != nil {
			got = p.failed.Error()
		}
		if (test.want == "") != (got == "") || !strings.Contains(got, test.want) || errors.Is(context.Cause(ctx), errStalled) != (test.want != "") {
			t.Errorf("%s: %q, want %q; canceled: %v", name, got, test.want, context.Cause(ctx))
		}
	}
}

// growing is containerd's content service during pulls of one layer. containerd stores 1 MiB of
// the layer at a time.
type growing struct {
	// nil, so that any other method panics
	contentapi.ContentClient
	step time.Duration
	// number of steps of 1 MiB after which no more data arrives
	steps int64
	begun time.Time
}

func (g *growing) ListStatuses(context.Context, *contentapi.ListStatusesRequest, ...grpc.CallOption) (*contentapi.ListStatusesResponse, error) {
	stored := min(int64(time.Since(g.begun)/g.step), g.steps)
	return &contentapi.ListStatusesResponse{Statuses: []*contentapi.Status{{Ref: "manifest-m", Offset: stored << 20}}}, nil
}

func (g *growing) List(context.Context, *contentapi.ListContentRequest, ...grpc.CallOption) (contentapi.Content_ListClient, error) {
	return &infoStream{}, nil
}

// TestStallTimeoutDefault checks that with the default of pullStallTimeout, podrun does not cancel
// a pull over a slow link. If a pull receives no data, podrun must cancel it, and the next attempt
// must follow after the back-off.
func TestStallTimeoutDefault(t *testing.T) {
	for name, test := range map[string]struct {
		store growing
		// duration of the first attempt if podrun does not cancel it
		took  time.Duration
		after time.Duration // time after which the image is present
		calls []string
		first string // expected event for the first failure
	}{
		"1 MiB in 4 minutes": {growing{step: 4 * time.Minute, steps: 5}, 20 * time.Minute, 20 * time.Minute,
			[]string{"PullImage r/app:1"}, ""},
		"2 MiB, then nothing": {growing{step: 4 * time.Minute, steps: 2}, time.Hour, 8*time.Minute + 5*time.Minute + 10*time.Second,
			[]string{"PullImage r/app:1", "PullImage r/app:1"}, `Failed to pull image "r/app:1": no data received for 5m0s`},
		"nothing": {growing{step: time.Minute}, time.Hour, 5*time.Minute + 10*time.Second,
			[]string{"PullImage r/app:1", "PullImage r/app:1"}, `Failed to pull image "r/app:1": no data received for 5m0s`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRegistry()
				r.slow["r/app:1"] = test.took
				p := r.puller(Options{StallTimeout: nodeconfig.Default().PullStall})
				store := test.store
				store.begun = time.Now()
				p.watch.content = &store
				pulls := p.Start(t.Context(), planOf(t, "containers:\n"+container("app", "r/app:1", "IfNotPresent")))
				if pulls.BacksOff(t.Context(), "app") {
					r.mu.Lock()
					r.slow["r/app:1"] = 0
					r.mu.Unlock()
				}
				if _, err := pulls.Wait(t.Context(), "app"); err != nil {
					t.Fatal(err)
				}
				// The tolerance is the interval between looks, 250 ms.
				if took := time.Since(store.begun); took < test.after || took > test.after+time.Second {
					t.Errorf("pulled after %s, want %s", took, test.after)
				}
				r.mu.Lock()
				defer r.mu.Unlock()
				wantLines(t, "calls", slices.DeleteFunc(r.calls, func(call string) bool { return !strings.HasPrefix(call, "PullImage") }), test.calls)
				events := strings.Join(r.events, "\n")
				if failed := strings.Contains(events, "Failed to pull image"); failed != (test.first != "") || !strings.Contains(events, test.first) {
					t.Error(events)
				}
			})
		})
	}
}

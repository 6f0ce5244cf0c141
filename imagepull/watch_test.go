package imagepull

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	contentapi "github.com/containerd/containerd/api/services/content/v1"
	imagesapi "github.com/containerd/containerd/api/services/images/v1"
	"github.com/containerd/containerd/api/types"
	"google.golang.org/grpc"
)

// storeContent is containerd's content service with manifests and indexes.
type storeContent struct {
	contentapi.ContentClient // nil: any other method panics
	infos                    []*contentapi.Info
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

// storeImages is containerd's image service: digests by name.
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

// A pull is given up only if neither the store nor the connections show that it goes
// on, and for lack of an answer only if nothing can be unpacked.
func TestGiveUp(t *testing.T) {
	const limit = 10 * time.Second
	image := &contentapi.Info{Digest: "m", Labels: map[string]string{labelChildren + "config": "c", labelSource + "registry.example": "app"}}
	index := &contentapi.Info{Digest: "i", Labels: map[string]string{labelChildren + "m.0": "m"}}
	layer := map[string]int64{"manifest-m": 0}
	for name, test := range map[string]struct {
		open    map[string]int64 // ingests, the same all the time
		quiet   time.Duration
		seen    bool
		infos   []*contentapi.Info
		targets map[string]string
		err     error // of the image service
		want    string
	}{
		"nothing comes":                {open: layer, quiet: time.Minute, seen: true, want: "no data received for 20s"},
		"nothing comes lately":         {open: layer, quiet: 12 * time.Second, seen: true, want: "no data received for 12s"},
		"less than the store shows":    {open: layer, quiet: 9 * time.Second, seen: true},
		"the connections are not seen": {open: layer, want: "no data received for 20s"},
		"no answer":                    {quiet: 20 * time.Second, seen: true, want: "registry registry.example:5000 has not answered for 20s"},
		"an answer comes":              {quiet: time.Second, seen: true},
		"no answer that can be seen":   {},
		"it may unpack":                {quiet: time.Minute, seen: true, infos: []*contentapi.Info{image}},
		"nothing is left to unpack":    {quiet: time.Minute, seen: true, infos: []*contentapi.Info{image}, targets: map[string]string{"registry.example:5000/app:0": "m"}, want: "has not answered for 20s"},
		"nor of an index":              {quiet: time.Minute, seen: true, infos: []*contentapi.Info{image, index}, targets: map[string]string{"registry.example:5000/app:0": "i"}, want: "has not answered for 20s"},
		"the images are not known":     {quiet: time.Minute, seen: true, infos: []*contentapi.Info{image}, err: errors.New("no")},
	} {
		w := &watcher{stall: limit, content: storeContent{infos: test.infos}, images: storeImages{targets: test.targets, err: test.err},
			wire: func(context.Context) (time.Duration, bool) { return test.quiet, test.seen }}
		ctx, cancel := context.WithCancelCause(t.Context())
		p := &watched{transfer: newTransfer("registry.example:5000/app:1", begun), cancel: cancel}
		w.pulls = []*watched{p}
		for at := time.Duration(0); at <= 2*limit; at += 2 * limit {
			l := lookAt(at, test.open)
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

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The images to pull, and the limits of their pulls.
const (
	imageCount = 8
	imageSize  = 20e6 // in bytes
	// bytes per second for each image; the registry enforces the limit
	imageRate   = 20e6
	maxPulls    = 1.1 // maximum relative to the bare client's concurrent pulls
	maxOneByOne = 0.3 // maximum relative to sequential pulls
	imageRounds = 5   // maximum number of rounds
)

// imageNumbers are the durations of pulls, in ms.
type imageNumbers struct {
	Podrun   numbers `json:"podrunMs"`   // podrun image pull
	Bare     numbers `json:"bareMs"`     // PullImage, concurrently
	OneByOne numbers `json:"oneByOneMs"` // PullImage, one after the other, as the kubelet does
	// Warm is the number of requests to the registry for a pod whose image is present.
	Warm int64 `json:"warmRequests"`
}

// measureImages compares podrun's pulls of different images with a bare client's. Before each
// measurement, it removes all images and their blobs.
func measureImages(ctx context.Context, p *podrun, client *runtimeClient, o options) (n *imageNumbers, err error) {
	r, err := newRegistry(os.Getenv("PODRUN_TEST_REGISTRY"), imageRate)
	if err != nil {
		return nil, err
	}
	defer r.server.Close()
	names, err := r.push(imageCount, imageSize)
	if err != nil {
		return nil, err
	}
	fresh := context.WithoutCancel(ctx)
	defer func() { err = errors.Join(err, removeImages(fresh, client, names)) }()
	n = &imageNumbers{}
	ways := []struct {
		into *numbers
		pull func() error
	}{
		{&n.Podrun, func() error { _, err := p.run(ctx, append([]string{"image", "pull"}, names...)...); return err }},
		{&n.Bare, func() error { return pullImages(ctx, client, names, len(names)) }},
		{&n.OneByOne, func() error { return pullImages(ctx, client, names, 1) }},
	}
	for range o.rounds(min(o.pairs, imageRounds)) {
		for _, way := range ways {
			if err := removeImages(ctx, client, names); err != nil {
				return nil, err
			}
			begin := time.Now()
			if err := way.pull(); err != nil {
				return nil, err
			}
			way.into.add(time.Since(begin))
		}
	}
	n.Warm, err = warmRequests(ctx, p, client, r, o)
	return n, err
}

// pullImages pulls images with bare calls, a limited number of them at a time.
func pullImages(ctx context.Context, client *runtimeClient, names []string, parallel int) error {
	var pulls errgroup.Group
	pulls.SetLimit(parallel)
	for _, name := range names {
		pulls.Go(func() error {
			_, err := client.images.PullImage(ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: name}})
			return err
		})
	}
	return pulls.Wait()
}

// removeImages removes images. The runtime responds when it has deleted their blobs.
func removeImages(ctx context.Context, client *runtimeClient, names []string) error {
	for _, name := range names {
		if _, err := client.images.RemoveImage(ctx, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: name}}); err != nil {
			return fmt.Errorf("remove image %s: %w", name, err)
		}
	}
	return nil
}

// warmRequests counts the requests that the registry receives during a run of a pod whose
// image is present.
func warmRequests(ctx context.Context, p *podrun, client *runtimeClient, r *registry, o options) (int64, error) {
	_, rest, _ := strings.Cut(o.image, "/")
	image := r.address + "/" + rest
	if err := pullImages(ctx, client, []string{image}, 1); err != nil {
		return 0, err
	}
	warm := scenario{Pods: []manifest{pod("warm", image, 1, 1)}, Parallel: 1}
	before := r.requests.Load()
	_, _, err := p.apply(ctx, warm, []string{o.endpoint})
	asked := r.requests.Load() - before
	err = errors.Join(err, p.deleteAll(ctx))
	return asked, errors.Join(err, removeName(context.WithoutCancel(ctx), client, image))
}

// removeName removes one name of an image that has several names. Because the CRI removes an image
// with all its names, removeName restores the others.
func removeName(ctx context.Context, client *runtimeClient, image string) error {
	status, err := client.images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: image}})
	if err != nil {
		return err
	}
	if err := removeImages(ctx, client, []string{image}); err != nil {
		return err
	}
	for _, other := range status.GetImage().GetRepoTags() {
		if other != image {
			if err := pullImages(ctx, client, []string{other}, 1); err != nil {
				return err
			}
		}
	}
	return nil
}

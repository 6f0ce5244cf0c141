package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/test/bench/result"
)

// The images to pull, and the limits of their pulls.
const (
	imageCount = 8
	imageSize  = 20e6 // in bytes
	// bytes per second for each image; the registry enforces the limit
	imageRate   = 20e6
	imageRounds = 5 // maximum number of rounds
)

// measureImages compares podrun's pulls of different images with a bare client's: with concurrent ones,
// and with one after the other, as the kubelet's. Before each pull, it removes all images and their
// blobs.
func measureImages(ctx context.Context, p *podrun, client *runtimeClient, o options) (_ []result.Row, err error) {
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
	remove := func() error { return removeImages(ctx, client, names) }
	bare := func(name string, parallel int) contender {
		return contender{name: name, before: remove, run: func() (time.Duration, error) {
			begin := time.Now()
			err := pullImages(ctx, client, names, parallel)
			return time.Since(begin), err
		}}
	}
	contenders := append(p.contenders(func(p *podrun) contender {
		c := p.timed(ctx, append([]string{"image", "pull"}, names...)...)
		c.before = remove
		return c
	}, bare("bare client", len(names))), bare("bare client, sequential", 1))
	all, err := o.interleave(ctx, min(o.pairs, imageRounds), contenders...)
	if err != nil {
		return nil, err
	}
	parallel, sequential := all[:len(all)-1], slices.Clone(all[:len(all)-1])
	sequential[1] = all[len(all)-1]
	name := fmt.Sprintf("pull of %d images, against ", imageCount)
	return []result.Row{ratioRow(name+"parallel pulls", parallel), ratioRow(name+"sequential pulls", sequential)}, nil
}

// measureRequests counts the requests to the registry for a pod whose image is present.
func measureRequests(ctx context.Context, p *podrun, client *runtimeClient, o options) ([]result.Row, error) {
	r, err := newRegistry(os.Getenv("PODRUN_TEST_REGISTRY"), imageRate)
	if err != nil {
		return nil, err
	}
	defer r.server.Close()
	n, err := warmRequests(ctx, p, client, r, o)
	return []result.Row{result.NewRow("requests to the registry, image present", "", numbers{float64(n)}, nil)}, err
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

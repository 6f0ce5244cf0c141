package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// measureDelete compares `podrun delete` of n pods with a bare client that stops and removes the
// same pods concurrently.
func measureDelete(ctx context.Context, p *podrun, client *runtimeClient, o options, count int) (*difference, error) {
	d := &difference{Name: fmt.Sprintf("delete of %d pods", count), ratio: true, target: maxRatioDelete}
	s := scenario{Name: d.Name, Pods: pods(count, o.image), Parallel: count, OneProcess: true}
	recipes, err := record(ctx, p, o, s)
	if err != nil {
		return nil, err
	}
	for i := range o.rounds(o.pairs + 1) {
		if _, _, err := p.apply(ctx, s, []string{o.endpoint}); err != nil {
			return nil, errors.Join(err, p.deleteAll(ctx))
		}
		ours, err := p.run(ctx, "delete", "--all", "-n", namespace)
		if err != nil {
			return nil, err
		}
		theirs, err := removeBare(ctx, client, p.dir, recipes)
		if err != nil {
			return nil, err
		}
		// The first pair is only a warm-up.
		if i > 0 {
			d.add(ours.wall(), theirs)
		}
	}
	return d, nil
}

// removeBare starts pods, stops and removes them, and returns the time for stopping and removing
// them. It makes the same calls as a kubelet, so that each container has its grace period.
func removeBare(ctx context.Context, client *runtimeClient, dir string, recipes []recipe) (time.Duration, error) {
	fresh, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Minute)
	defer cancel()
	pods := make([]*barePod, len(recipes))
	for i, r := range recipes {
		var err error
		if pods[i], err = r.prepare(dir); err != nil {
			return 0, err
		}
	}
	err := atATime(len(pods), len(pods), func(i int) error { return pods[i].start(ctx, client) })
	begin := time.Now()
	err = errors.Join(err, atATime(len(pods), len(pods), func(i int) error {
		return errors.Join(pods[i].stop(fresh, client), pods[i].remove(fresh, client))
	}))
	return time.Since(begin), err
}

// stop stops the containers of the pod.
func (p *barePod) stop(ctx context.Context, c *runtimeClient) error {
	list, err := c.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{PodSandboxId: p.id}})
	if err != nil {
		return fmt.Errorf("bare client: ListContainers: %w", err)
	}
	return atATime(max(1, len(list.Containers)), len(list.Containers), func(i int) error {
		_, err := c.runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: list.Containers[i].Id})
		return err
	})
}

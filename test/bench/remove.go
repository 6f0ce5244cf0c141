package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/test/bench/result"
)

// measureDelete compares `podrun delete` of n pods with a bare client that stops and removes the
// same pods concurrently. The bare client makes the same calls as a kubelet, so that each container has
// its grace period.
func measureDelete(ctx context.Context, p *podrun, client *runtimeClient, o options, count int) ([]result.Row, error) {
	name := fmt.Sprintf("delete of %d pods", count)
	if count == 1 {
		name = "delete of 1 pod"
	}
	s := scenario{Name: name, Pods: pods(count, o.image), Parallel: count, OneProcess: true}
	recipes, err := record(ctx, p, o, s)
	if err != nil {
		return nil, err
	}
	ours := func(p *podrun) contender {
		c := p.timed(ctx, "delete", "--all", "-n", namespace)
		c.before = func() error {
			_, _, err := p.apply(ctx, s, []string{o.endpoint})
			return err
		}
		return c
	}
	fresh := context.WithoutCancel(ctx)
	var pods []*barePod
	bare := contender{
		name: "bare client",
		before: func() (err error) {
			if pods, err = prepareAll(recipes, p.dir); err != nil {
				return err
			}
			return atATime(len(pods), len(pods), func(i int) error { return pods[i].start(ctx, client) })
		},
		run: func() (time.Duration, error) {
			begin := time.Now()
			err := atATime(len(pods), len(pods), func(i int) error {
				return errors.Join(pods[i].stop(fresh, client), pods[i].remove(fresh, client))
			})
			return time.Since(begin), err
		},
	}
	all, err := o.interleave(ctx, o.pairs, p.contenders(ours, bare)...)
	if err != nil {
		return nil, err
	}
	return []result.Row{ratioRow(name, all)}, nil
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

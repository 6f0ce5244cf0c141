package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/podrun/podrun/test/bench/result"
)

// measureRun compares `podrun run` of a container that exits immediately with a bare client that
// starts the same pod, waits for its end and removes it.
func measureRun(ctx context.Context, p *podrun, client *runtimeClient, o options) ([]result.Row, error) {
	s := scenario{Name: "run of true", Parallel: 1, Pods: []manifest{pod("ends", o.image, 0, 1)}}
	s.Pods[0].YAML = strings.Replace(s.Pods[0].YAML, `["sleep", "3600"]`, `["true"]`, 1)
	recipes, err := record(ctx, p, o, s)
	if err != nil {
		return nil, err
	}
	// The bare client must wait for all containers.
	recipes[0].inits = len(recipes[0].containers)
	paths, err := p.write(s)
	if err != nil {
		return nil, err
	}
	bare := bareStarter(ctx, client, p.dir, s, recipes)
	start, remove := bare.run, bare.after
	bare.run, bare.after = func() (time.Duration, error) {
		took, err := start()
		begin := time.Now()
		err = errors.Join(err, remove())
		return took + time.Since(begin), err
	}, nil
	all, err := o.interleave(ctx, o.pairs, p.contenders(func(p *podrun) contender { return p.timed(ctx, "run", "--quiet", paths[0]) }, bare)...)
	if err != nil {
		return nil, err
	}
	return []result.Row{extraRow("run of true", all)}, nil
}

// The number of volumes of the measured pod, and of their keys.
const (
	manyObjects = 50
	manyKeys    = 100
)

// measureVolumes measures how much longer an apply takes if the pod has many ConfigMaps and Secrets
// as volumes, and the time that the same number of mounts adds to the bare client's start of the pod.
func measureVolumes(ctx context.Context, p *podrun, client *runtimeClient, o options) ([]result.Row, error) {
	var contenders []contender
	both := []scenario{
		{Name: "with", Parallel: 1, Pods: []manifest{withVolumes(pod("with", o.image, 0, 1))}},
		{Name: "without", Parallel: 1, Pods: []manifest{pod("without", o.image, 0, 1)}},
	}
	for _, s := range both {
		recipes, err := record(ctx, p, o, s)
		if err != nil {
			return nil, err
		}
		contenders = append(contenders, bareStarter(ctx, client, p.dir, s, recipes))
	}
	for _, version := range p.versions() {
		for _, s := range both {
			contenders = append(contenders, version.starter(ctx, s, o.endpoint))
		}
	}
	for i := 1; i < len(contenders); i += 2 {
		contenders[i].name += " without volumes"
	}
	all, err := o.interleave(ctx, o.pairs, contenders...)
	if err != nil {
		return nil, err
	}
	added := func(i int) numbers { return result.Differences(all[i].took, all[i+1].took) }
	var old numbers
	if len(all) > 4 {
		old = added(4)
	}
	return []result.Row{
		result.NewRow(fmt.Sprintf("%d ConfigMaps and Secrets of %d keys", manyObjects, manyKeys), "ms", added(2), old, programs(all[2:])...),
		result.NewRow(fmt.Sprintf("mounts of %d volumes", manyObjects), "ms", added(0), nil, programs(all[:2])...),
	}, nil
}

// withVolumes adds the objects to a pod's manifest, and mounts them into its container as
// volumes.
func withVolumes(m manifest) manifest {
	var mounts, volumes, objects strings.Builder
	for i := range manyObjects {
		name, kind, source := fmt.Sprintf("o%d", i), "ConfigMap", "configMap: {name: o%d}"
		if i%2 == 1 {
			kind, source = "Secret", "secret: {secretName: o%d}"
		}
		fmt.Fprintf(&mounts, "    - {name: %s, mountPath: /o/%s}\n", name, name)
		fmt.Fprintf(&volumes, "  - {name: %s, "+source+"}\n", name, i)
		fmt.Fprintf(&objects, "---\napiVersion: v1\nkind: %s\nmetadata: {name: %s, namespace: %s}\ndata:\n", kind, name, namespace)
		for k := range manyKeys {
			fmt.Fprintf(&objects, "  key%d: dmFsdWU=\n", k)
		}
	}
	m.YAML += "    volumeMounts:\n" + mounts.String() + "  volumes:\n" + volumes.String() + objects.String()
	return m
}

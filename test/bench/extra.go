package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// The targets of these measurements, in ms.
const (
	// `podrun run` of true, compared with the bare client's start, wait and remove
	maxRunExtra     = 100
	maxVolumesExtra = 40 // 50 ConfigMaps and Secrets of 100 keys, compared with the same pod without them
)

// difference is the extra time that one action takes compared with another, measured in pairs.
type difference struct {
	Name   string  `json:"name"`
	Ours   numbers `json:"oursMs"`
	Theirs numbers `json:"theirsMs"`
	Extra  numbers `json:"extraMs"`
	Ratio  numbers `json:"ratio"`
	Floor  numbers `json:"floorMs,omitempty"` // Extra, measured with the bare client
	ratio  bool    // the target is a maximum of Ratio, not of Extra
	target float64 // 0 means no target
}

func (d *difference) add(ours, theirs time.Duration) {
	d.Ours.add(ours)
	d.Theirs.add(theirs)
	d.Extra.add(ours - theirs)
	d.Ratio = append(d.Ratio, float64(ours)/float64(theirs))
}

// measureRun compares `podrun run` of a container that exits immediately with a bare client that
// starts the same pod, waits for its end and removes it.
func measureRun(ctx context.Context, p *podrun, client *runtimeClient, o options) (*difference, error) {
	d := &difference{Name: "run of true", target: maxRunExtra}
	s := scenario{Name: d.Name, Parallel: 1, Pods: []manifest{pod("ends", o.image, 0, 1)}}
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
	for i := range o.rounds(o.pairs + 1) {
		ours, err := p.run(ctx, "run", "--quiet", paths[0])
		if err != nil {
			return nil, errors.Join(err, p.deleteAll(ctx))
		}
		theirs, err := runBareToEnd(ctx, client, p.dir, recipes[0])
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

// runBareToEnd starts a pod, waits for its containers and removes it.
func runBareToEnd(ctx context.Context, client *runtimeClient, dir string, r recipe) (time.Duration, error) {
	b, err := r.prepare(dir)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	err = b.start(ctx, client)
	fresh, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	err = errors.Join(err, b.remove(fresh, client))
	return time.Since(begin), err
}

// The number of volumes of the measured pod, and of their keys.
const (
	manyObjects = 50
	manyKeys    = 100
)

// measureVolumes measures how much longer an apply takes if the pod has many ConfigMaps and Secrets
// as volumes. The floor is the time that the same number of mounts adds to the bare client's start
// of the pod.
func measureVolumes(ctx context.Context, p *podrun, client *runtimeClient, o options) (*difference, error) {
	d := &difference{Name: fmt.Sprintf("%d ConfigMaps and Secrets of %d keys", manyObjects, manyKeys), target: maxVolumesExtra}
	both := [2]scenario{
		{Name: "with", Parallel: 1, Pods: []manifest{withVolumes(pod("with", o.image, 0, 1))}},
		{Name: "without", Parallel: 1, Pods: []manifest{pod("without", o.image, 0, 1)}},
	}
	var recipes [2][]recipe
	for i, s := range both {
		var err error
		if recipes[i], err = record(ctx, p, o, s); err != nil {
			return nil, err
		}
	}
	for i := range o.rounds(o.pairs + 1) {
		var ours, bare [2]time.Duration
		for k, s := range both {
			var err error
			_, ours[k], err = p.apply(ctx, s, []string{o.endpoint})
			if err = errors.Join(err, p.deleteAll(ctx)); err != nil {
				return nil, err
			}
			if bare[k], err = runBare(ctx, client, p.dir, s, recipes[k]); err != nil {
				return nil, err
			}
		}
		// The first pair is only a warm-up.
		if i > 0 {
			d.add(ours[0], ours[1])
			d.Floor.add(bare[0] - bare[1])
		}
	}
	return d, nil
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

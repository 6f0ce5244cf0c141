package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// reactLimit limits each measured start and reaction.
const reactLimit = time.Minute

// behindProxy starts a serve that uses the runtime through a proxy.
func (b *serveBench) behindProxy(ctx context.Context, name string, watchExits bool) (*served, *proxy, func() error, error) {
	x, err := newProxy(filepath.Join(b.podrun.dir, name+".sock"), b.endpoint, watchExits)
	if err != nil {
		return nil, nil, nil, err
	}
	s, err := b.serve(name, x.path)
	if err != nil {
		x.close()
		return nil, nil, nil, err
	}
	return s, x, func() error {
		err := s.remove(ctx)
		x.close()
		return err
	}, nil
}

// measureDrops compares, in pairs, adding a file to a directory with `podrun apply` of the same
// pod. Each measurement ends with the response to the last StartContainer, which a proxy
// records.
func (b *serveBench) measureDrops(ctx context.Context) (rows []serveRow, err error) {
	s, x, end, err := b.behindProxy(ctx, "start", false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end(), b.podrun.deleteAll(ctx)) }()
	for _, c := range []struct {
		name, kubelet string
		inits         int
	}{{"a file dropped in → running", kubeletStart, 0}, {"the same with 10 init containers", kubeletTenInits, 10}} {
		var ours, theirs, ratio numbers
		for i := range b.pairs + 1 {
			m := pod(fmt.Sprintf("dropped-%d-%d", c.inits, i), b.image, c.inits, 1)
			begun, err := s.put(m)
			if err != nil {
				return nil, err
			}
			started, err := x.awaitStarts(ctx, begun, c.inits+1)
			if err != nil {
				return nil, errors.Join(err, errors.New(s.tail()))
			}
			dropped := started.Sub(begun)
			if err := s.clear(ctx, b.client, m); err != nil {
				return nil, err
			}
			applied, err := b.applied(ctx, m, c.inits+1)
			if err != nil {
				return nil, err
			}
			// The first pair is only a warm-up.
			if i > 0 {
				ours.add(dropped)
				theirs.add(applied)
				ratio = append(ratio, float64(dropped)/float64(applied))
			}
		}
		rows = append(rows, medianOf(c.name, "ms", ours, 0, c.kubelet), medianOf("… by podrun apply", "ms", theirs, 0, ""),
			medianOf("… ratio, pair by pair", "", ratio, maxServeRatio, ""))
	}
	return rows, nil
}

// clear removes a manifest, and waits until its pod is deleted and serve has processed the
// directory.
func (s *served) clear(ctx context.Context, c *runtimeClient, m manifest) error {
	if err := removeFile(filepath.Join(s.manifests, m.Name+".yaml")); err != nil {
		return err
	}
	err := until(ctx, startLimit, slowPoll, "that pod "+m.Name+" is gone", func() (bool, error) {
		left, err := c.runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{
			LabelSelector: map[string]string{"io.kubernetes.pod.name": m.Name}}})
		return len(left.GetItems()) == 0, err
	})
	return errors.Join(err, sleep(ctx, 300*time.Millisecond))
}

// applied measures `podrun apply` of a pod, and deletes the pod.
func (b *serveBench) applied(ctx context.Context, m manifest, starts int) (time.Duration, error) {
	x, err := newProxy(filepath.Join(b.podrun.dir, "apply.sock"), b.endpoint, false)
	if err != nil {
		return 0, err
	}
	defer x.close()
	runs, _, err := b.podrun.apply(ctx, scenario{Pods: []manifest{m}, Parallel: 1}, []string{x.path})
	if err != nil {
		return 0, err
	}
	end, err := x.awaitStarts(ctx, runs[0].Begin, starts)
	return end.Sub(runs[0].Begin), errors.Join(err, b.podrun.deleteAll(ctx, x.path))
}

// awaitStarts waits for the n-th StartContainer after the time since, and returns the time of its
// response.
func (p *proxy) awaitStarts(ctx context.Context, since time.Time, n int) (at time.Time, err error) {
	err = until(ctx, reactLimit, exitPoll, fmt.Sprintf("for %d StartContainer", n), func() (bool, error) {
		calls, _ := p.recorded()
		seen := 0
		for _, c := range calls {
			if c.Method == "StartContainer" && c.Begin.After(since) {
				seen++
				at = c.End
			}
		}
		return seen == n, nil
	})
	return at, err
}

// measureRestarts measures the time from the exit of a container's process to the CreateContainer
// of the container's first restart, which has no back-off. It also measures the part of this time
// that follows the runtime's report of the exit, because podrun cannot act before the report.
func (b *serveBench) measureRestarts(ctx context.Context) (rows []serveRow, err error) {
	s, x, end, err := b.behindProxy(ctx, "restart", true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	var took, told numbers
	for i := range 2*b.pairs + 1 {
		m := pod(fmt.Sprintf("exits-%d", i), b.image, 0, 1)
		m.YAML = strings.NewReplacer("restartPolicy: Never", "restartPolicy: OnFailure",
			`["sleep", "3600"]`, `[sh, -c, "[ ! -e /d/x ] || exec sleep 3600; touch /d/x; sleep 0.3; exit 1"]`).Replace(m.YAML)
		m.YAML += "    volumeMounts: [{name: d, mountPath: /d}]\n  volumes: [{name: d, emptyDir: {}}]\n"
		begun, err := s.put(m)
		if err != nil {
			return nil, err
		}
		if _, err := x.awaitStarts(ctx, begun, 2); err != nil {
			return nil, errors.Join(err, errors.New(s.tail()))
		}
		calls, exits := x.recorded()
		made, e, err := restartOf(calls, exits, begun)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			took.add(made.Sub(e.Finished))
			told.add(max(0, made.Sub(e.Reported)))
		}
		if err := s.clear(ctx, b.client, m); err != nil {
			return nil, err
		}
	}
	return []serveRow{medianOf("exit → CreateContainer of the restart", "ms", took, maxRestart, ""),
		medianOf("… after containerd reports the exit", "ms", told, 0, "")}, nil
}

// restartOf returns the time at which a pod's second container was created, and the exit of the
// first one.
func restartOf(calls []call, exits map[string]exit, since time.Time) (made time.Time, e exit, err error) {
	var creates []call
	for _, c := range calls {
		if c.Method == "CreateContainer" && c.Begin.After(since) {
			creates = append(creates, c)
		}
	}
	var first runtimeapi.CreateContainerResponse
	if len(creates) != 2 {
		return made, e, fmt.Errorf("%d containers were created, want 2", len(creates))
	}
	if err := proto.Unmarshal(creates[0].Response, &first); err != nil {
		return made, e, err
	}
	e, ok := exits[first.ContainerId]
	if !ok {
		return made, e, errors.New("the first container's exit was not seen")
	}
	return creates[1].Begin, e, nil
}

// measureProbes measures the time from the response to the probe that reaches its
// failureThreshold to the following StopContainer.
func (b *serveBench) measureProbes(ctx context.Context) (rows []serveRow, err error) {
	s, x, end, err := b.behindProxy(ctx, "probe", false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	var took numbers
	for i := range b.pairs {
		m := pod(fmt.Sprintf("probed-%d", i), b.image, 0, 1)
		m.YAML = strings.Replace(m.YAML, "restartPolicy: Never", "restartPolicy: Always", 1) +
			"    livenessProbe: {exec: {command: [\"false\"]}, periodSeconds: 1, failureThreshold: 2}\n"
		begun, err := s.put(m)
		if err != nil {
			return nil, err
		}
		var failed, stopped time.Time
		err = until(ctx, reactLimit, exitPoll, "for StopContainer", func() (bool, error) {
			failed, stopped = x.stopAfterProbe(begun)
			return !stopped.IsZero(), nil
		})
		if err != nil {
			return nil, errors.Join(err, errors.New(s.tail()))
		}
		took.add(stopped.Sub(failed))
		if err := s.clear(ctx, b.client, m); err != nil {
			return nil, err
		}
	}
	return []serveRow{medianOf("probe's threshold → StopContainer", "ms", took, maxProbeAction, "")}, nil
}

// stopAfterProbe returns the first StopContainer after a given time, and the last response to a
// probe before it.
func (p *proxy) stopAfterProbe(since time.Time) (probed, stopped time.Time) {
	calls, _ := p.recorded()
	for _, c := range calls {
		if c.Method == "StopContainer" && c.Begin.After(since) && (stopped.IsZero() || c.Begin.Before(stopped)) {
			stopped = c.Begin
		}
	}
	for _, c := range calls {
		if c.Method == "ExecSync" && c.End.Before(stopped) && c.End.After(probed) {
			probed = c.End
		}
	}
	return probed, stopped
}

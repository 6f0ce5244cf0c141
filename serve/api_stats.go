package serve

import (
	"context"
	"fmt"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podrun/podrun/cgroup"
	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/serve/nodeapi"
)

// usageReader repeatedly reads the resource usage of pods.
type usageReader struct {
	engine *run.Node
	rates  nodeapi.Rates

	mu     sync.Mutex
	groups *host.Cgroup // nil until it has been read
}

// read reads the usage of the node and its pods: the runtime's statistics, and the cgroups
// of pods without such statistics. Rates are averages since an earlier call. The error is
// of kind Runtime.
func (r *usageReader) read(ctx context.Context) (*statsapi.Summary, error) {
	e := r.engine
	in := nodeapi.StatsInput{Now: time.Now(), NodeName: e.NodeName(), Groups: map[string]nodeapi.Usage{},
		Owned: func(s *runtimeapi.PodSandbox) bool {
			ours, _ := identity.Owner(s.Annotations, e.Layout().RootDir)
			return ours
		}}
	var err error
	for _, read := range []func() error{
		func() error { in.Sandboxes, err = e.Client.ListPodSandbox(ctx, nil); return err },
		func() error { in.Containers, err = e.Client.ListContainers(ctx, nil); return err },
		func() error { in.PodStats, err = e.Client.ListPodSandboxStats(ctx); return err },
		func() error { in.Stats, err = e.Client.ListContainerStats(ctx); return err },
		func() error { in.Node, err = nodeapi.ReadNode(ctx, e.Layout().RootDir, in.Now); return err },
	} {
		if err := read(); err != nil {
			return nil, &problem.Error{Kind: problem.Runtime, Object: "statistics", Err: err}
		}
	}
	if discover.NoCgroups() != "" {
		cri.WithoutPodUsage(in.PodStats)
		cri.WithoutUsage(in.Stats)
	}
	known := map[string]bool{}
	for _, s := range in.PodStats {
		if l := s.GetLinux(); l.GetCpu() != nil && l.GetMemory() != nil {
			known[s.GetAttributes().GetId()] = true
		}
	}
	for _, s := range in.Sandboxes {
		if s.State == runtimeapi.PodSandboxState_SANDBOX_READY && in.Owned(s) && !known[s.Id] {
			if err := r.groupUsage(ctx, s.GetMetadata().GetUid(), in.Groups); err != nil {
				return nil, err
			}
		}
	}
	out := nodeapi.Summarize(in)
	r.rates.Fill(out, in.Now)
	return out, nil
}

// groupUsage reads the usage of a pod's cgroup.
func (r *usageReader) groupUsage(ctx context.Context, uid string, into map[string]nodeapi.Usage) error {
	r.mu.Lock()
	groups := r.groups
	r.mu.Unlock()
	// The mounts and the driver do not change.
	if groups == nil {
		facts, err := discover.ReadBasics(ctx, r.engine.Client, r.engine.Settings)
		if err != nil {
			return fmt.Errorf("statistics: %w", err)
		}
		groups = &facts.Cgroup
		r.mu.Lock()
		r.groups = groups
		r.mu.Unlock()
	}
	if u, found := cgroup.ReadStats(cgroup.Leftovers(uid, *groups, r.engine.Settings)); found {
		into[uid] = nodeapi.Usage(u)
	}
	return nil
}

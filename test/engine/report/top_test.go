package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/serve"
	"github.com/podrun/podrun/test/engine/rig"
)

// topInterval is the time between the two samples from which podrun top computes rates. It computes
// the rates because those of the runtime are 0.
const topInterval = 1100 * time.Millisecond

func TestTop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, critest.UsesCPU(0.25))
		r.MustApply(rig.PodText("web", "Always", "containers:", "- {name: app, image: registry.example/app:1}", "- {name: side, image: registry.example/web:1}"), run.OutcomeCreated)
		time.Sleep(time.Hour)
		begun := time.Now()
		pods, err := serve.Top(t.Context(), r.Engine(), lookup.Selector{Namespace: "default"})
		if err != nil || len(pods) != 1 || len(pods[0].Containers) != 2 {
			t.Fatalf("%+v %v", pods, err)
		}
		p := pods[0]
		if took := time.Since(begun); took != topInterval || p.Window != took {
			t.Errorf("took %s, over %s; want %s", took, p.Window, topInterval)
		}
		if c := p.Containers[1]; c.Name != "side" || *c.NanoCores != 25e7 || *c.WorkingSetBytes != 1<<20 || *p.NanoCores != 5e8 || *p.WorkingSetBytes != 2<<20 {
			t.Errorf("%+v: %s, %s", p, shownUsage(c.Usage), shownUsage(p.Usage))
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		stopped := errors.New("signal")
		time.AfterFunc(topInterval/2, func() { cancel(stopped) })
		if _, err := serve.Top(ctx, r.Engine(), lookup.Selector{}); !errors.Is(err, stopped) {
			t.Errorf("interrupted: %v", err)
		}
		begun = time.Now()
		pods, err = serve.Top(t.Context(), r.Engine(), lookup.Selector{Namespace: "other"})
		if err != nil || len(pods) != 0 || time.Since(begun) != 0 {
			t.Errorf("without pods: %+v %v after %s", pods, err, time.Since(begun))
		}
		r.MustDelete()
	})
}

// TestTopOfServe checks that top reads the usage from the supervisor, whose second response
// contains rates.
func TestTopOfServe(t *testing.T) {
	t.Parallel()
	r := rig.New(t, critest.UsesCPU(2))
	dir := rig.DirWith(t, "web.yaml", apiPod)
	get := rig.API(t, r, serve.Options{Dirs: []string{dir}})
	stats := func() (s statsapi.Summary) {
		if code, body := get("/stats/summary"); code != 200 || json.Unmarshal([]byte(body), &s) != nil {
			t.Fatalf("%d %s", code, body)
		}
		return s
	}
	rig.Eventually(t, "the supervisor has rates", func() bool {
		s := stats()
		return len(s.Pods) == 1 && len(s.Pods[0].Containers) == 1 && s.Pods[0].Containers[0].CPU.UsageNanoCores != nil
	})
	e := r.Engine()
	// Without this client, podrun can call only the supervisor.
	e.Client = nil
	pods, err := serve.Top(t.Context(), e, lookup.Selector{})
	if err != nil || len(pods) != 1 || pods[0].Window != 0 {
		t.Fatalf("%+v %v", pods, err)
	}
	if n := *pods[0].NanoCores; n < 19e8 || n > 21e8 {
		t.Errorf("%s of 2 cores", shownUsage(pods[0].Usage))
	}
}

// TestTopBesideDeadSandbox covers containerd 1.6, which returns an error for the statistics of all
// pods while one sandbox is not ready, or while a container is being removed.
func TestTopBesideDeadSandbox(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t, critest.UsesCPU(1))
		r.MustApply(rig.PodText("web", "Always", "containers:", "- {name: app, image: registry.example/app:1}"), run.OutcomeCreated)
		time.Sleep(time.Second)
		unknown := func(text string) error { return status.Error(codes.Unknown, text) }
		r.Runtime.Fault("ListPodSandboxStats", critest.Fault{Err: unknown("failed to decode sandbox container metrics: sandbox container is not in ready state"), Times: 1})
		r.Runtime.Fault("ListPodSandboxStats", critest.Fault{Err: status.Error(codes.NotFound, "failed to decode sandbox container metrics: container not created: not found")})
		r.Runtime.Fault("ListContainerStats", critest.Fault{Err: unknown("failed to decode container metrics"), Times: 2})
		pods, err := serve.Top(t.Context(), r.Engine(), lookup.Selector{})
		if err != nil || len(pods) != 1 || *pods[0].NanoCores != 1e9 {
			t.Errorf("%+v %v", pods, err)
		}
		r.Runtime.Fault("ListContainerStats", critest.Fault{Err: unknown("broken")})
		_, err = serve.Top(t.Context(), r.Engine(), lookup.Selector{})
		rig.WantErr(t, err, problem.Runtime, "statistics", "broken")
		r.MustDelete()
	})
}

// TestTopOnCRIO covers CRI-O before 1.37, which crashes if a client requests the usage of pods
// while a container exits (cri-o/cri-o#10206).
func TestTopOnCRIO(t *testing.T) {
	t.Parallel()
	for version, asked := range map[string]bool{"1.36.3": false, "1.37.0": true} {
		synctest.Test(t, func(t *testing.T) {
			profile := critest.CRIO()
			profile.Version = version
			r := rig.New(t, critest.As(profile), critest.UsesCPU(1))
			r.MustApply(rig.PodText("web", "Always", "containers:", "- {name: app, image: registry.example/app:1}"), run.OutcomeCreated)
			time.Sleep(time.Second)
			pods, err := serve.Top(t.Context(), r.Engine(), lookup.Selector{})
			if err != nil || len(pods) != 1 || *pods[0].NanoCores != 1e9 {
				t.Errorf("%s: %+v %v", version, pods, err)
			}
			if got := len(r.Runtime.CallNames("ListPodSandboxStats")) > 0; got != asked {
				t.Errorf("%s: the usage of pods was requested: %v", version, got)
			}
			r.MustDelete()
		})
	}
}

func shownUsage(u serve.Usage) string {
	show := func(n *uint64) string {
		if n == nil {
			return "-"
		}
		return fmt.Sprint(*n)
	}
	return show(u.NanoCores) + " " + show(u.WorkingSetBytes)
}

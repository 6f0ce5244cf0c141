package report

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/test/engine/rig"
)

// defineVersion is `podrun set env` for one variable.
func defineVersion(now run.Current) (run.Redefinition, error) {
	changed := now.Pod.DeepCopy()
	changed.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "VERSION", Value: "2"}}
	return run.Redefined(changed, "env updated")
}

func podOf(name string) string {
	return rig.PodText(name, "Always", "containers: [{name: "+name+", image: registry.example/app:1}]")
}

func twoPods(r *rig.Host) run.Targets {
	for _, name := range []string{"one", "two"} {
		r.Runtime.Script(name, critest.Behavior{Forever: true})
		r.MustApply(podOf(name), run.OutcomeCreated)
	}
	return run.Targets{Namespace: "default", Matches: func(run.Known) bool { return true }}
}

// ofTwo reports whether a call concerns the container of the pod two.
func ofTwo(r *rig.Host) func(proto.Message) bool {
	var ids []string
	for _, c := range r.Runtime.Containers() {
		if c.Config.GetMetadata().GetName() == "two" {
			ids = append(ids, c.ID)
		}
	}
	return func(m proto.Message) bool {
		switch req := m.(type) {
		case *runtimeapi.CreateContainerRequest:
			return req.GetConfig().GetMetadata().GetName() == "two"
		case *runtimeapi.StopContainerRequest:
			return slices.Contains(ids, req.GetContainerId())
		}
		return false
	}
}

// TestReportsOfPods runs operations on two pods. For the second pod, a call to the runtime fails, or does not return
// before a signal ends the operation. The report must contain what the operation did to the first pod, and the error of
// the second one.
func TestReportsOfPods(t *testing.T) {
	t.Parallel()
	options := run.ApplyOptions{AllowKubelet: true}
	for _, op := range []struct {
		name, call string
		do         func(context.Context, *run.Node, run.Targets) (run.Report, error)
		first      string
	}{
		{"stop", "StopContainer", func(ctx context.Context, e *run.Node, of run.Targets) (run.Report, error) {
			return run.Stop(ctx, e, run.StopInput{Targets: of})
		}, "stopped"},
		{"restart", "CreateContainer", func(ctx context.Context, e *run.Node, of run.Targets) (run.Report, error) {
			forced := options
			forced.Force = true
			return run.Start(ctx, e, run.StartInput{Targets: of, Options: forced})
		}, "restarted"},
		{"start", "CreateContainer", func(ctx context.Context, e *run.Node, of run.Targets) (run.Report, error) {
			if report, err := run.Stop(context.WithoutCancel(ctx), e, run.StopInput{Targets: of}); err != nil || report.Err() != nil {
				return report, err
			}
			return run.Start(ctx, e, run.StartInput{Targets: of, Options: options})
		}, "restarted"},
		{"delete", "StopContainer", func(ctx context.Context, e *run.Node, of run.Targets) (run.Report, error) {
			return run.Delete(ctx, e, run.DeleteInput{Namespace: of.Namespace, Every: &run.Selection{Pods: of.Matches}})
		}, "deleted"},
		{"apply", "CreateContainer", func(ctx context.Context, e *run.Node, _ run.Targets) (run.Report, error) {
			in := applyInput(t, strings.ReplaceAll(podOf("one")+"---\n"+podOf("two"), "app:1", "app:1, command: [x]"))
			return run.Apply(ctx, e, in)
		}, "replaced"},
		{"change", "CreateContainer", func(ctx context.Context, e *run.Node, of run.Targets) (run.Report, error) {
			return run.Change(ctx, e, run.ChangeInput{Targets: of, Define: defineVersion, AllowKubelet: true})
		}, "replaced"},
	} {
		for fault, when := range map[string]critest.When{"fails": critest.Before, "is interrupted": critest.Hang} {
			t.Run(op.name+" "+fault, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := rig.New(t)
					targets := twoPods(r)
					clear := r.Runtime.Fault(op.call, critest.Fault{When: when, Match: ofTwo(r)})
					ctx, signal := context.WithCancelCause(t.Context())
					end := time.AfterFunc(30*time.Second, func() { signal(errors.New("a signal")) })
					report, err := op.do(ctx, r.Engine(), targets)
					end.Stop()
					if err != nil {
						t.Fatal(err)
					}
					got := linesOf(report)
					if len(got) != 2 || got[0] != "Pod one "+op.first || !strings.HasPrefix(got[1], "Pod two ") || !strings.HasSuffix(got[1], " with an error") {
						t.Errorf("%q; %v", got, report.Err())
					}
					if when == critest.Hang && !strings.Contains(report.Err().Error(), "a signal") {
						t.Error(report.Err())
					}
					clear()
					r.MustDelete()
				})
			})
		}
	}
}

// TestChangeReports checks the reports of changes that concern one of two pods, and of those that apply nothing.
func TestChangeReports(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		var worked []identity.Pod
		in := run.ChangeInput{Targets: twoPods(r), AllowKubelet: true}
		in.Working = func(pods []identity.Pod) { worked = append(worked, pods...) }
		in.Define = func(now run.Current) (run.Redefinition, error) {
			if now.Pod.Name == "two" {
				return run.Redefinition{Notes: []string{"a note"}}, nil
			}
			return defineVersion(now)
		}
		calls := r.CallsTo("CreateContainer")
		for range 2 { // a dry run, with and without the checks of admission
			in.DryRun = true
			report, err := run.Change(t.Context(), r.Engine(), in)
			if err != nil {
				t.Error(err)
			}
			wantReport(t, report, "Pod one "+string(run.OutcomeDryChange), "Pod two unchanged")
			if one := report.Entries[0]; one.Done != "env updated" || len(one.Pod.Spec.Containers[0].Env) != 1 {
				t.Errorf("%+v", one)
			}
			if two := report.Entries[1]; two.Done != "" || !slices.Equal(two.Notes, []string{"a note"}) || two.Pod == nil {
				t.Errorf("%+v", two)
			}
			in.Admit = true
		}
		in.DryRun, in.Admit = false, false
		for name, invalid := range map[string]run.Define{
			"refused by Define": func(now run.Current) (run.Redefinition, error) {
				if now.Pod.Name == "two" {
					return run.Redefinition{}, errors.New("no such container")
				}
				return defineVersion(now)
			},
			"invalid": func(now run.Current) (run.Redefinition, error) {
				if now.Pod.Name == "two" {
					now.Pod.Spec.RestartPolicy = "Sometimes"
				}
				return defineVersion(now)
			},
		} {
			of := in
			of.Define = invalid
			report, err := run.Change(t.Context(), r.Engine(), of)
			if err == nil || len(report.Entries) > 0 || !strings.Contains(err.Error(), "two") {
				t.Errorf("%s: %v, %v", name, linesOf(report), err)
			}
		}
		if len(worked) > 0 || r.CallsTo("CreateContainer") != calls {
			t.Errorf("Change worked on %v", worked)
		}
		report, err := run.Change(t.Context(), r.Engine(), in)
		if err != nil || len(worked) != 1 || worked[0].Name != "one" {
			t.Errorf("Change worked on %v: %v", worked, err)
		}
		wantReport(t, report, "Pod one replaced", "Pod two unchanged")
		r.MustDelete()
	})
}

// TestChangeDecides checks the loop of edit: Change asks again, with the reason, until the definition is valid and this
// host would run the pod, or until the user gives up.
func TestChangeDecides(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		targets := twoPods(r)
		in := run.ChangeInput{Targets: targets, AllowKubelet: true, Decide: func(context.Context, *corev1.Pod, error) (run.Define, error) {
			return defineVersion, nil
		}}
		if _, err := run.Change(t.Context(), r.Engine(), in); err == nil || !strings.Contains(err.Error(), "2 pods are selected") {
			t.Errorf("of two pods: %v", err)
		}
		in.Targets = run.Targets{Namespace: "default", Named: []lookup.Ref{{Name: "one"}}}
		var rejected []error
		change := func(policy corev1.RestartPolicy, node string) run.Define {
			return func(now run.Current) (run.Redefinition, error) {
				now.Pod.Spec.RestartPolicy, now.Pod.Spec.NodeSelector = policy, map[string]string{"kubernetes.io/hostname": node}
				return run.Redefined(now.Pod, "edited")
			}
		}
		answers := []run.Define{change("Sometimes", "node-a"), change("Always", "node-b"), change("Always", "node-a")}
		in.Decide = func(_ context.Context, current *corev1.Pod, reason error) (run.Define, error) {
			if current.Name != "one" {
				t.Errorf("Decide got %s", current.Name)
			}
			rejected = append(rejected, reason)
			return answers[len(rejected)-1], nil
		}
		report, err := run.Change(t.Context(), r.Engine(), in)
		if err != nil {
			t.Error(err)
		}
		wantReport(t, report, "Pod one replaced")
		if len(rejected) != 3 || rejected[0] != nil || !strings.Contains(rejected[1].Error(), "restartPolicy") || !strings.Contains(rejected[2].Error(), "nodeSelector") {
			t.Errorf("%q", rejected)
		}
		answers, rejected = []run.Define{nil}, nil
		report, err = run.Change(t.Context(), r.Engine(), in)
		if err != nil {
			t.Error(err)
		}
		wantReport(t, report)
		r.MustDelete()
	})
}

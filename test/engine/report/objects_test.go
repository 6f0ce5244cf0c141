package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/imagestore"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/ownruntime"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestReportsOfImages checks that the report of an operation on images has what the operation did before a call to the
// runtime failed, or before a signal.
func TestReportsOfImages(t *testing.T) {
	t.Parallel()
	of := func(name string) func(proto.Message) bool {
		return func(m proto.Message) bool { return strings.Contains(m.(fmt.Stringer).String(), name) }
	}
	for name, op := range map[string]struct {
		call, image string // the call that fails, and the image that it concerns
		do          func(context.Context, *run.Node) (imagestore.Report, error)
		want        []string
	}{
		"pull": {"PullImage", "db:1", func(ctx context.Context, e *run.Node) (imagestore.Report, error) {
			return imagestore.Pull(ctx, e, imagestore.PullInput{Names: []string{"registry.example/app:1", "registry.example/db:1"}})
		}, []string{"registry.example/app:1 pulled", "registry.example/db:1 failed"}},
		"rm": {"RemoveImage", idOf("b"), func(ctx context.Context, e *run.Node) (imagestore.Report, error) {
			return imagestore.Remove(ctx, e, imagestore.RemoveInput{Images: []string{"registry.example/a:1", "registry.example/b:1"}, Force: true})
		}, []string{"registry.example/a:1 removed", "registry.example/a removed", "registry.example/b:1 failed"}},
		"prune": {"RemoveImage", idOf("b"), func(ctx context.Context, e *run.Node) (imagestore.Report, error) {
			return imagestore.Prune(ctx, e, imagestore.PruneInput{All: true})
		}, []string{"registry.example/a:1 removed", "registry.example/app:2 removed"}},
	} {
		for fault, when := range map[string]critest.When{"fails": critest.Before, "is interrupted": critest.Hang} {
			t.Run(name+" "+fault, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := rig.New(t)
					r.Runtime.Script("app", critest.Behavior{Forever: true})
					r.MustApply(rig.Web("Always"), run.OutcomeCreated) // without a container, every image may be in use
					for _, image := range []string{"a", "b"} {
						r.Runtime.AddImage(critest.Image{Name: "registry.example/" + image + ":1", ID: "sha256:" + idOf(image)})
					}
					r.Runtime.Fault(op.call, critest.Fault{When: when, Match: of(op.image), Err: map[bool]error{true: errors.New("not found")}[when == critest.Before]})
					ctx, signal := context.WithCancelCause(t.Context())
					end := time.AfterFunc(30*time.Second, func() { signal(errors.New("a signal")) })
					report, err := op.do(ctx, r.Engine())
					end.Stop()
					if err = errors.Join(err, report.Err()); err == nil {
						t.Error("the fault had no effect")
					}
					var got []string
					for _, e := range report {
						name, _, _ := strings.Cut(e.Name, "@")
						got = append(got, name+" "+string(e.Outcome))
					}
					if !slices.Equal(got, op.want) {
						t.Errorf("%q, want %q; %v", got, op.want, err)
					}
					r.MustDelete()
				})
			})
		}
	}
}

// idOf returns a digest for the name of an image.
func idOf(name string) string { return strings.Repeat(name, 64) }

// TestPruneAsks checks the decision of prune: it gets the unused images, and no image is removed without consent.
func TestPruneAsks(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.MustApply(rig.Web("Always"), run.OutcomeCreated)
	r.Runtime.AddImage(critest.Image{Name: "registry.example/a:1", ID: "sha256:" + idOf("a")})
	for _, refused := range []error{nil, io.EOF} {
		var asked []imagestore.Image
		report, err := imagestore.Prune(t.Context(), r.Engine(), imagestore.PruneInput{All: true, Confirm: func(unused []imagestore.Image) (bool, error) {
			asked = append(asked, unused...)
			return false, refused
		}})
		if len(report) > 0 || !errors.Is(err, refused) || !slices.ContainsFunc(asked, func(i imagestore.Image) bool { return i.Title() == "registry.example/a:1" }) {
			t.Errorf("asked about %v: %v, %v", asked, report, err)
		}
	}
	if r.CallsTo("RemoveImage") > 0 {
		t.Error("an image was removed")
	}
	r.MustDelete()
}

// TestDebugReports adds an ephemeral container whose creation fails, or does not return before a signal.
func TestDebugReports(t *testing.T) {
	t.Parallel()
	for name, when := range map[string]critest.When{"fails": critest.Before, "is interrupted": critest.Hang} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t)
				r.Runtime.Script("app", critest.Behavior{Forever: true})
				r.MustApply(rig.Web("Always"), run.OutcomeCreated)
				clear := r.Runtime.Fault("CreateContainer", critest.Fault{When: when})
				ctx, signal := context.WithCancelCause(t.Context())
				end := time.AfterFunc(30*time.Second, func() { signal(errors.New("a signal")) })
				chosen := ""
				in := run.DebugInput{Namespace: "default", Named: lookup.Ref{Name: "web"}, Chosen: func(name string) { chosen = name }, AllowKubelet: true,
					Container: corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Image: "registry.example/app:1"}}}
				report, err := run.Debug(ctx, r.Engine(), in)
				end.Stop()
				clear()
				if err != nil || report.Err() == nil || len(report.Entries) != 1 || report.Running || !strings.HasPrefix(chosen, "debugger-") {
					t.Errorf("%q, %+v, %v", chosen, report, err)
				}
				if k := r.Known()[0]; len(k.Pod.Spec.EphemeralContainers) > 0 {
					t.Error("the container remains in the pod's definition")
				}
				r.Runtime.Script("debugger", critest.Behavior{Forever: true})
				in.Container.Name = "debugger"
				report, err = run.Debug(t.Context(), r.Engine(), in)
				if err != nil || report.Err() != nil || !report.Running || report.Target.Container != "debugger" {
					t.Errorf("%+v, %v", report, err)
				}
				r.MustDelete()
			})
		})
	}
}

// TestGCReports checks that gc reports what it has removed if it then cannot read another root directory.
func TestGCReports(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.MustApply(rig.Web("Always"), run.OutcomeCreated)
	if err := os.RemoveAll(string(r.Layout().Pod(r.Known()[0].ID.UID))); err != nil {
		t.Fatal(err)
	}
	other := rig.New(t)
	other.Runtime, other.Settings.CgroupRoot = r.Runtime, r.Settings.CgroupRoot
	other.MustApply(rig.PodText("other", "Always", "containers: [{name: app, image: registry.example/app:1}]"), run.OutcomeCreated)
	removed := false
	r.Runtime.Fault("RemovePodSandbox", critest.Fault{Match: func(proto.Message) bool { removed = true; return false }})
	clear := r.Runtime.Fault("ListPodSandbox", critest.Fault{Match: func(proto.Message) bool { return removed }})
	found, err := run.GC(t.Context(), r.Engine(), run.GCOptions{AllRootDirs: true})
	clear()
	if err == nil || !slices.ContainsFunc(found, func(l run.Leftover) bool { return l.Name == "default/web" && l.Removed }) {
		t.Errorf("%+v, %v", found, err)
	}
	other.MustDelete()
}

// TestRemoveRuntimeReports checks that `runtime down --force` reports the pods that it removed before a signal.
func TestRemoveRuntimeReports(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		twoPods(r)
		layout := embedded.ReadLayout(r.Settings.RootDir)
		if err := errors.Join(embedded.MakeDirs(layout), embedded.WriteChoice(layout, embedded.Choice{Kind: embedded.Own})); err != nil {
			t.Fatal(err)
		}
		clear := r.Runtime.Fault("StopContainer", critest.Fault{When: critest.Hang, Match: ofTwo(r)})
		ctx, signal := context.WithCancelCause(t.Context())
		time.AfterFunc(30*time.Second, func() { signal(errors.New("a signal")) })
		report, err := run.RemoveRuntime(ctx, run.RemoveRuntimeInput{
			Runtime: ownruntime.New(r.Settings, ownruntime.Options{Command: "podrun test", Warn: func(problem.List) {}}),
			Force:   true,
			Open:    func(context.Context) (*run.Node, func(), error) { return r.Engine(), func() {}, nil },
		})
		if err == nil || err.Error() != "a signal" {
			t.Error(err)
		}
		wantReport(t, report, "Pod one deleted", "Pod two failed with an error")
		clear()
		r.MustDelete()
	})
}

package report

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/servicesync"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/test/engine/rig"
)

const (
	honouredText = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: api, annotations: {podrun.dev/replicas: honour}}\nspec: {replicas: %d, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {terminationGracePeriodSeconds: 1, containers: [{name: app, image: registry.example/app:1}]}}}\n"
	webService   = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {clusterIP: None, selector: {app: web}}\n"
)

// linesOf returns the entries of a report as text: the kind, the name, the outcome, and whether there is an error.
func linesOf(r run.Report) (out []string) {
	for _, e := range r.Entries {
		line := fmt.Sprintf("%s %s %s", e.Kind, e.ID.Name, e.Outcome)
		if e.Err != nil {
			line += " with an error"
		}
		out = append(out, line)
	}
	return out
}

func wantReport(t *testing.T, r run.Report, want ...string) {
	t.Helper()
	if got := linesOf(r); !slices.Equal(got, want) {
		t.Errorf("the report:\n%q\nwant:\n%q", got, want)
	}
}

// isWeb selects the objects with the label app=web.
func isWeb(labels map[string]string) bool { return labels["app"] == "web" }

// applyInput returns the input of Apply for a manifest.
func applyInput(t *testing.T, text ...string) run.ApplyInput {
	return run.ApplyInput{Objects: rig.Load(t, text...), Options: run.ApplyOptions{Timeout: rig.Timeout, AllowKubelet: true}}
}

// TestApplyReports checks that the report of Apply has one entry for each object that Apply has changed, each with
// its own status.
func TestApplyReports(t *testing.T) {
	t.Parallel()
	pod := func(name string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", labels: {app: web}}\nspec: {restartPolicy: Never, terminationGracePeriodSeconds: 1, containers: [{name: app, image: registry.example/app:1}]}\n"
	}
	for name, test := range map[string]func(t *testing.T, r *rig.Host){
		"completed and pruned": func(t *testing.T, r *rig.Host) {
			r.Runtime.Script("app", critest.Behavior{Forever: true})
			r.MustApply(pod("old"), run.OutcomeCreated)
			r.Runtime.Script("app", critest.Behavior{ExitCode: 3})
			in := applyInput(t, pod("new"), webService)
			in.Options.Wait, in.Prune = lifecycle.GoalCompleted, &run.Prune{Namespace: "default", Match: isWeb}
			report, err := run.Apply(t.Context(), r.Engine(), in)
			if err != nil {
				t.Error(err)
			}
			wantReport(t, report, "Service web created", "Pod new created", "Pod old deleted")
			for _, e := range report.Pods() {
				if e.Unrequested != (e.ID.Name == "old") || len(e.Containers) != 1 || e.Containers[0].ExitCode == 3 != (e.ID.Name == "new") {
					t.Errorf("%s: %+v", e.ID, e)
				}
			}
		},
		"surplus": func(t *testing.T, r *rig.Host) {
			if _, err := run.Apply(t.Context(), r.Engine(), applyInput(t, fmt.Sprintf(honouredText, 2))); err != nil {
				t.Fatal(err)
			}
			report, err := run.Apply(t.Context(), r.Engine(), applyInput(t, fmt.Sprintf(honouredText, 1), webService))
			if err != nil {
				t.Error(err)
			}
			wantReport(t, report, "Service web created", "Pod api unchanged", "Pod api-1 deleted")
		},
		"all pods fail": func(t *testing.T, r *rig.Host) {
			r.Runtime.Fault("CreateContainer", critest.Fault{When: critest.Before})
			report, err := run.Apply(t.Context(), r.Engine(), applyInput(t, pod("new"), webService))
			if err != nil {
				t.Error(err)
			}
			wantReport(t, report, "Pod new failed with an error")
			if left, err := servicesync.List(t.Context(), r.Engine(), ""); err != nil || len(left) > 0 {
				t.Errorf("Services after a failed apply: %v, %v", left, err)
			}
		},
		"prune stays in the namespaces of the pods": func(t *testing.T, r *rig.Host) {
			r.MustApply(strings.Replace(pod("old"), "name: old", "name: old, namespace: other", 1), run.OutcomeCreated)
			in := applyInput(t, pod("new"), strings.Replace(webService, "name: web", "name: web, namespace: other", 1))
			in.Prune = &run.Prune{Namespace: "default", Match: isWeb}
			report, err := run.Apply(t.Context(), r.Engine(), in)
			if err != nil || !report.Started {
				t.Error(err)
			}
			wantReport(t, report, "Service web created", "Pod new created")
		},
		"a workload without pods": func(t *testing.T, r *rig.Host) {
			for _, want := range []struct{ text, outcome string }{
				{fmt.Sprintf(honouredText, 0), "created"}, {fmt.Sprintf(honouredText, 0), "unchanged"},
				{strings.Replace(fmt.Sprintf(honouredText, 0), "app:1", "app:2", 1), "configured"},
			} {
				report, err := run.Apply(t.Context(), r.Engine(), applyInput(t, want.text))
				if err != nil {
					t.Error(err)
				}
				wantReport(t, report, "Deployment api "+want.outcome)
			}
		},
		"an input of which a file is missing prunes nothing": func(t *testing.T, r *rig.Host) {
			r.MustApply(pod("old"), run.OutcomeCreated)
			in := applyInput(t, pod("new"))
			in.Incomplete, in.Prune = true, &run.Prune{Namespace: "default", Match: isWeb}
			report, err := run.Apply(t.Context(), r.Engine(), in)
			if err != nil {
				t.Error(err)
			}
			wantReport(t, report, "Pod new created")
		},
		"ConfigMaps alone": func(t *testing.T, r *rig.Host) {
			r.Runtime.Script("app", critest.Behavior{Forever: true})
			app := func(name string, configMaps ...string) string {
				return rig.PodText(name, "Never", "containers: [{name: app, image: registry.example/app:1, envFrom: [{configMapRef: {name: "+
					strings.Join(configMaps, "}}, {configMapRef: {name: ")+"}}]}]")
			}
			config := func(name, value string) string {
				return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {" + name + ": \"" + value + "\"}\n"
			}
			// Each pod has its own copy of the ConfigMap b.
			r.MustApply(app("one", "a", "b")+"---\n"+config("a", "1")+"---\n"+config("b", "1"), run.OutcomeCreated)
			r.MustApply(app("two", "a", "b")+"---\n"+config("a", "1")+"---\n"+config("b", "2"), run.OutcomeCreated)
			r.MustApply(app("three", "b")+"---\n"+config("b", "3"), run.OutcomeCreated)
			starts := r.CallsTo("StartContainer")
			apply := func(wantErr string, texts ...string) []string {
				report, err := run.Apply(t.Context(), r.Engine(), applyInput(t, texts...))
				if (err == nil) != (wantErr == "") || err != nil && !strings.Contains(err.Error(), wantErr) {
					t.Errorf("apply %q: %v", texts, err)
				}
				return linesOf(report)
			}
			wantData := func(want string) {
				t.Helper()
				got := ""
				for _, k := range r.Known() {
					c, err := lookup.StoredCheckpoint(r.Engine(), k.ID)
					if err != nil {
						t.Fatal(err)
					}
					for _, m := range c.ConfigMaps {
						got += k.ID.Name + " " + m.Name + m.Data[m.Name] + "\n"
					}
				}
				if got != want {
					t.Errorf("the copies of the pods:\n%s\nwant:\n%s", got, want)
				}
			}
			for _, want := range []string{"ConfigMap a configured", "ConfigMap a unchanged"} {
				if got := apply("", config("a", "4")); !slices.Equal(got, []string{want}) {
					t.Errorf("%q instead of %q", got, want)
				}
				wantData("one a4\none b1\nthree b3\ntwo a4\ntwo b2\n")
			}
			if got := apply("ConfigMap default/c: no pod in the input or on this host refers to it", config("a", "5"), config("c", "1")); got != nil {
				t.Errorf("a refused apply: %q", got)
			}
			apply("", config("a", "5")+"immutable: true\n")
			apply("ConfigMap default/a: data is immutable", config("a", "6")+"immutable: true\n", config("b", "6"))
			wantData("one a5\none b1\nthree b3\ntwo a5\ntwo b2\n")
			if r.CallsTo("StartContainer") != starts {
				t.Error("containers were started")
			}
		},
		"ConfigMaps of CronJobs and of workloads without pods": func(t *testing.T, r *rig.Host) {
			config := func(value string) string {
				return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: \"" + value + "\"}\n"
			}
			copies := []*corev1.ConfigMap{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Data: map[string]string{"a": "1"}}}
			cronJob := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "report"}}
			if err := store.WriteCronJob(r.Layout(), &store.CronJobRecord{CronJob: cronJob, Dependencies: &manifest.Dependencies{ConfigMaps: copies}}); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"web", "file"} {
				record := store.WorkloadRecord{ID: identity.Pod{Namespace: "default", Name: name}, Kind: "Deployment", Change: "x"}
				if name == "file" {
					record.Origin = "/etc/podrun/manifests/file.yaml"
				}
				template := rig.Load(t, rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/app:1}]")).Pods[0].Object
				if err := errors.Join(record.SetTemplate(manifest.Checkpoint{Pod: template, ConfigMaps: copies}), store.WriteWorkload(r.Layout(), record)); err != nil {
					t.Fatal(err)
				}
			}
			apply := func(wantErr, text string) []string {
				t.Helper()
				report, err := run.Apply(t.Context(), r.Engine(), applyInput(t, text))
				if (err == nil) != (wantErr == "") || err != nil && !strings.Contains(err.Error(), wantErr) {
					t.Errorf("apply: %v", err)
				}
				return linesOf(report)
			}
			wantData := func(want string) {
				t.Helper()
				records, err := store.ReadRecords(r.Layout())
				if err != nil {
					t.Fatal(err)
				}
				got := records.CronJobs[0].Dependencies.ConfigMaps[0].Data["a"]
				for _, name := range []string{"web", "file"} {
					record, err := store.ReadWorkload(r.Layout(), identity.Pod{Namespace: "default", Name: name})
					if err != nil {
						t.Fatal(err)
					}
					c, err := record.Checkpoint()
					if err != nil {
						t.Fatal(err)
					}
					got += " " + c.ConfigMaps[0].Data["a"]
				}
				if got != want {
					t.Errorf("the copies of the CronJob and the workloads: %q, want %q", got, want)
				}
			}
			for _, want := range []string{"ConfigMap a configured", "ConfigMap a unchanged"} {
				if got := apply("", config("2")); !slices.Equal(got, []string{want}) {
					t.Errorf("%q instead of %q", got, want)
				}
				wantData("2 2 1")
			}
			if got := strings.Join(r.Warnings(), "\n"); !strings.Contains(got, "Deployment default/file keeps the previous data, because podrun serve reads it from a file") {
				t.Errorf("warnings %q", got)
			}
			apply("", config("3")+"immutable: true\n")
			apply("ConfigMap default/a: data is immutable", config("4"))
			wantData("3 3 1")
			r.NoError([]run.Result{{Err: errors.Join(store.RemoveCronJob(r.Layout(), cronJob), store.RemoveWorkload(r.Layout(), identity.Pod{Namespace: "default", Name: "web"}),
				store.RemoveWorkload(r.Layout(), identity.Pod{Namespace: "default", Name: "file"}))}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t)
				test(t, r)
			})
		})
	}
}

// TestWaitReports waits for the end of a pod whose checkpoint is lost: its containers are unknown.
func TestWaitReports(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.Script("app", critest.Behavior{ExitCode: 3})
		r.MustApply(rig.PodText("web", "Never", "containers: [{name: app, image: registry.example/app:1}]"), run.OutcomeCreated)
		pods := r.Known()
		pods[0].Pod = nil
		report := run.WaitAll(t.Context(), r.Engine(), pods, run.WaitOptions{For: lifecycle.GoalCompleted, Timeout: rig.Timeout})
		wantReport(t, report, "Pod web condition met")
	})
}

// TestDeleteReports checks that a Delete which fails after its first change reports this change, and that the next
// Delete completes it.
func TestDeleteReports(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		if _, err := run.Apply(t.Context(), r.Engine(), applyInput(t, fmt.Sprintf(honouredText, 1), webService)); err != nil {
			t.Fatal(err)
		}
		in := run.DeleteInput{Namespace: "default", Named: []lookup.Ref{{Kind: "Deployment", Name: "api"}}, Files: rig.Load(t, webService, rig.PodText("other", "Never", "containers: [{name: app, image: registry.example/app:1}]")), IgnoreMissing: true}
		clear := r.Runtime.Fault("ListPodSandbox", critest.Fault{When: critest.Before})
		report, err := run.Delete(t.Context(), r.Engine(), in)
		if err == nil {
			t.Error("the fault had no effect")
		}
		wantReport(t, report, "Deployment api "+string(run.OutcomeMarked))
		clear()
		dry := in
		dry.DryRun = true
		if report, err = run.Delete(t.Context(), r.Engine(), dry); err != nil {
			t.Error(err)
		}
		wantReport(t, report, "Pod api "+string(run.OutcomeDryDelete), "Service web "+string(run.OutcomeDryDelete))
		if report, err = run.Delete(t.Context(), r.Engine(), in); err != nil {
			t.Error(err)
		}
		wantReport(t, report, "Pod api deleted", "Service web deleted")
		if want := []lookup.Ref{{Name: "other"}}; !slices.Equal(report.Missing, want) {
			t.Errorf("missing: %v", report.Missing)
		}
		if w, err := store.ReadWorkload(r.Layout(), identity.Pod{Namespace: "default", Name: "api"}); err != nil || w != nil {
			t.Errorf("the record of the workload: %v, %v", w, err)
		}
		r.NothingLeft()
	})
}

// TestScaleReports checks that the report of Scale has the workload and each pod that Scale has changed.
func TestScaleReports(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		if _, err := run.Apply(t.Context(), r.Engine(), applyInput(t, fmt.Sprintf(honouredText, 2))); err != nil {
			t.Fatal(err)
		}
		scale := func(n int32) (run.Report, error) {
			return run.Scale(t.Context(), r.Engine(), run.ScaleInput{Kind: "Deployment", ID: identity.Pod{Namespace: "default", Name: "api"}, Replicas: n,
				ApplyOptions: run.ApplyOptions{Timeout: rig.Timeout, AllowKubelet: true}})
		}
		report, err := scale(1)
		if err != nil {
			t.Error(err)
		}
		wantReport(t, report, "Deployment api scaled", "Pod api-1 deleted")
		clear := r.Runtime.Fault("CreateContainer", critest.Fault{When: critest.Before})
		if report, err = scale(2); err != nil || report.Err() == nil {
			t.Errorf("the fault had no effect: %v", err)
		}
		wantReport(t, report, "Deployment api scaled", "Pod api-1 failed with an error")
		clear()
		if report, err = scale(2); err != nil {
			t.Error(err)
		}
		wantReport(t, report, "Deployment api scaled", "Pod api-1 created")
		in := run.ScaleInput{Kind: "Deployment", ID: identity.Pod{Namespace: "default", Name: "api"}, Replicas: 3, Current: ptr.To(int32(7))}
		if report, err = run.Scale(t.Context(), r.Engine(), in); err == nil {
			t.Error("a Scale from another number succeeded")
		}
		wantReport(t, report)
	})
}

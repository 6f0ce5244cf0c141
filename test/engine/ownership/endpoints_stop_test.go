package ownership

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/servicesync"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/test/engine/rig"
)

// endpoint returns the conditions of the only endpoint of the Service web: ready, serving and
// terminating.
func endpoint(r *rig.Host) (out []bool) {
	r.T.Helper()
	services, err := servicesync.List(r.T.Context(), r.Engine(), "")
	if err != nil || len(services) != 1 || len(services[0].Slices) == 0 || len(services[0].Slices[0].Endpoints) != 1 {
		r.T.Fatalf("%+v, %v", services, err)
	}
	c := services[0].Slices[0].Endpoints[0].Conditions
	return []bool{*c.Ready, *c.Serving, *c.Terminating}
}

func applyWebService(r *rig.Host) {
	r.T.Helper()
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80, Protocol: "TCP"}}}}
	if _, _, err := servicesync.Apply(r.T.Context(), r.Engine(), map[string]*corev1.Service{"default/web": s}, servicesync.Options{RecordsOnly: true}); err != nil {
		r.T.Fatal(err)
	}
}

// TestStoppingPodIsNoReadyEndpoint checks that a pod is a terminating endpoint, and no ready one, as soon
// as a command begins to stop or remove it, although its containers still serve.
func TestStoppingPodIsNoReadyEndpoint(t *testing.T) {
	t.Parallel()
	for name, command := range drainCommands() {
		if !command.ends || command.grace == 0 || strings.HasPrefix(name, "apply") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t)
				r.Settings.CgroupsPerQOS = false
				drainScripts(r)
				r.MustApply(strings.Replace(drainPod("v1"), "name: web", "name: web, labels: {app: web}", 1), run.OutcomeCreated)
				time.Sleep(time.Minute)
				applyWebService(r)
				if got := endpoint(r); !slices.Equal(got, []bool{true, true, false}) {
					t.Errorf("before: ready, serving, terminating: %v", got)
				}
				done := make(chan error, 1)
				go func() { done <- command.do(t.Context(), r) }()
				time.Sleep(2 * time.Second)
				if got := endpoint(r); !slices.Equal(got, []bool{false, true, true}) {
					t.Errorf("during the hook: ready, serving, terminating: %v", got)
				}
				if err := <-done; err != nil && command.grace != drainGrace {
					t.Error(err)
				}
				r.Delete(run.DeleteOptions{})
			})
		})
	}
}

// TestStoppingIsAnnounced checks that a command announces a stop when it begins, so that it can update
// the endpoints of Services before the preStop hook ends.
func TestStoppingIsAnnounced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := drainRig(t)
		begun, announced := time.Now(), time.Time{}
		e := r.Engine()
		e.Observer.Stopping = func(identity.Pod) { announced = time.Now() }
		if _, err := run.DeletePods(t.Context(), e, r.Known(), run.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if announced.IsZero() || announced.Sub(begun) > time.Second {
			t.Errorf("announced after %s", announced.Sub(begun))
		}
	})
}

// TestReadinessDuringPreStop checks that readiness probes continue while a preStop hook runs, and that
// their results are recorded for other processes. Liveness probes end.
func TestReadinessDuringPreStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Settings.CgroupsPerQOS = false
		var draining atomic.Bool
		var lived atomic.Int64
		r.Runtime.ScriptExec("app", func(cmd []string) *critest.Exec {
			switch {
			case cmd[0] == "drain":
				draining.Store(true)
				return &critest.Exec{After: 20 * time.Second}
			case cmd[0] == "live" && draining.Load():
				lived.Add(1)
			case cmd[0] == "ready" && draining.Load():
				return &critest.Exec{ExitCode: 1}
			}
			return &critest.Exec{}
		})
		r.MustApply(rig.PodText("web", "Always", "terminationGracePeriodSeconds: 30", "containers:",
			"- {name: app, image: registry.example/app:1, lifecycle: {preStop: {exec: {command: [drain]}}}, livenessProbe: {exec: {command: [live]}, periodSeconds: 1}, readinessProbe: {exec: {command: [ready]}, periodSeconds: 1, failureThreshold: 2}}"), run.OutcomeCreated)
		known := r.Known()
		if err := run.Wait(t.Context(), r.Engine(), known[0], run.WaitOptions{For: "ready", Timeout: rig.Timeout}).Err; err != nil {
			t.Fatal(err)
		}
		id := r.Runtime.Containers()[0].ID
		ready := func() bool {
			state, errs := store.ReadPodState(r.Layout(), known[0].ID.UID)
			for _, err := range errs {
				if err != nil {
					t.Error(err)
				}
			}
			return state.Probes[id].Ready
		}
		if !ready() {
			t.Error("the container is not ready before the stop")
		}
		done := make(chan error, 1)
		go func() {
			_, err := run.DeletePods(context.WithoutCancel(t.Context()), r.Engine(), known, run.DeleteOptions{})
			done <- err
		}()
		time.Sleep(10 * time.Second)
		if ready() {
			t.Error("the container is still ready, although its probe fails")
		}
		if n := lived.Load(); n > 0 {
			t.Errorf("%d liveness probes during the hook", n)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		r.NothingLeft()
	})
}

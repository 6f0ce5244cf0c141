package pod

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/prepare"
)

// testPod returns a pod with a directory, an init container setup and a container app. Its events are
// appended to the returned list.
func testPod(t *testing.T) (*Pod, *[]event.Event) {
	t.Helper()
	var events []event.Event
	object := &corev1.Pod{}
	object.Namespace, object.Name, object.Generation = "default", "web", 2
	object.Spec.InitContainers = []corev1.Container{{Name: "setup"}}
	object.Spec.Containers = []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}}}}
	plan := &prepare.Plan{ID: identity.Pod{Namespace: "default", Name: "web", UID: "u"}, Pod: object, Layout: identity.Layout{RootDir: t.TempDir(), RunDir: t.TempDir()}}
	if err := os.MkdirAll(string(plan.Layout.Pod("u")), 0o750); err != nil {
		t.Fatal(err)
	}
	return New(&node.Node{Emit: func(e event.Event) { events = append(events, e) }}, plan), &events
}

// TestResizeMessage compares the message of an event with that of the kubelet (pkg/kubelet/events).
func TestResizeMessage(t *testing.T) {
	p, _ := testPod(t)
	const resources = `"initContainers":[{"name":"setup","resources":{}}],"containers":[{"name":"app","resources":{"requests":{"cpu":"100m"}}}],"generation":2`
	for failed, want := range map[string]string{
		"":     "Pod resize started: {" + resources + "}",
		"full": "Pod resize started: {" + resources + `,"error":"full"}`,
	} {
		if got := ResizeMessage("Pod resize started", p.Spec(), failed); got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
	}
}

// TestResizePending checks that an event reports a pending resize when its reason changes, and that the
// pod's status keeps the reason on disk until it is known that it no longer applies.
func TestResizePending(t *testing.T) {
	deferred := &lifecycle.ResizePending{Reason: corev1.PodReasonDeferred, Message: "no memory"}
	infeasible := &lifecycle.ResizePending{Reason: corev1.PodReasonInfeasible, Message: "swap"}
	other := &lifecycle.ResizePending{Reason: corev1.PodReasonDeferred, Message: "no cpu"}
	for name, tc := range map[string]struct {
		before *lifecycle.ResizePending
		now    PendingResize
		kept   *lifecycle.ResizePending
		event  string
	}{
		"unknown":             {deferred, PendingResize{}, deferred, ""},
		"no longer":           {deferred, PendingResize{Known: true}, nil, ""},
		"deferred":            {nil, PendingResize{true, deferred}, deferred, "ResizeDeferred Pod resize Deferred: no memory"},
		"as before":           {deferred, PendingResize{true, deferred}, deferred, ""},
		"another message":     {deferred, PendingResize{true, other}, other, ""},
		"another reason":      {deferred, PendingResize{true, infeasible}, infeasible, "ResizeInfeasible Pod resize Infeasible: swap"},
		"infeasible at first": {nil, PendingResize{true, infeasible}, infeasible, "ResizeInfeasible Pod resize Infeasible: swap"},
	} {
		p, events := testPod(t)
		p.Observed.Kept.ResizePending, p.ResizePending = tc.before, tc.now
		p.UpdateResizePending()
		if p.Observed.Kept.ResizePending != tc.kept {
			t.Errorf("%s: kept %+v, want %+v", name, p.Observed.Kept.ResizePending, tc.kept)
		}
		got := ""
		for _, e := range *events {
			got += e.Reason + " " + e.Message
		}
		if got != tc.event {
			t.Errorf("%s: event %q, want %q", name, got, tc.event)
		}
	}
}

package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/manifest/input"
	"github.com/podrun/podrun/serve/source"
)

// lists returns the number of calls of the runtime that list objects.
func (r *rig) lists() (n int) {
	for _, method := range []string{"ListPodSandbox", "ListContainers", "ListImages"} {
		n += len(r.rt.CallNames(method))
	}
	return n
}

// filesOf returns the state of a manifest directory with one file for each pod.
func filesOf(t *testing.T, names []string) *source.Snapshot {
	t.Helper()
	const dir = "/etc/podrun/manifests"
	d := source.Dir{Path: dir, State: source.Present}
	for _, name := range names {
		text := fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: shop}, spec: {containers: [{name: %[1]s, image: 'registry.example/app:1'}]}}", name)
		objects, problems := manifest.Load([]input.Source{{Name: name + ".yaml", Data: []byte(text)}}, manifest.Options{})
		if len(problems.Errors()) > 0 {
			t.Fatal(problems)
		}
		d.Files = append(d.Files, source.File{Path: dir + "/" + name + ".yaml", State: source.Good, Objects: objects})
	}
	return &source.Snapshot{Dirs: []source.Dir{d}}
}

// TestManyPods creates 110 pods at once, the most that a node has by default. All must run after a minute. In
// the next minute, podrun-node must not list the runtime's objects more often than serve does with the same pods
// in files; in the first one, at most once more for each event of a pod.
func TestManyPods(t *testing.T) {
	var names []string
	for i := range 110 {
		names = append(names, fmt.Sprintf("many-%d", i))
	}
	// counts returns the lists of the first minute after begin, and of the second one.
	counts := func(r *rig, begin func()) (first, second int) {
		before := r.lists()
		began := time.Now()
		begin()
		time.Sleep(time.Until(began.Add(time.Minute)))
		for _, name := range names {
			if !r.runs(name) {
				t.Fatalf("container %s does not run; warnings %s", name, strings.Join(r.warnings, "\n"))
			}
		}
		first = r.lists() - before
		time.Sleep(time.Minute)
		return first, r.lists() - before - first
	}
	var ofNode, ofServe [2]int
	clusterTest(t, func(t *testing.T, r *rig) {
		var pods []runtime.Object
		for _, name := range names {
			pods = append(pods, bound(name))
		}
		ofNode[0], ofNode[1] = counts(r, func() { r.create(pods...) })
		list, err := r.client.CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != len(names) {
			t.Fatalf("%d pods, %v", len(list.Items), err)
		}
		for _, p := range list.Items {
			if p.Status.Phase != corev1.PodRunning {
				t.Errorf("pod %s: phase %s", p.Name, p.Status.Phase)
			}
		}
	})
	clusterTest(t, func(t *testing.T, r *rig) {
		r.end()
		r.startServe()
		ofServe[0], ofServe[1] = counts(r, func() { r.file(filesOf(t, names)) })
	})
	t.Logf("lists of the runtime in the minute of the start and in the next one: podrun-node %v, serve %v", ofNode, ofServe)
	// A relist every second has two calls, and the minutes do not begin with a relist. While pods start, each of
	// the three events of a pod (its sandbox and its container are ready, its container runs) causes at most one
	// relist; how many events share one depends on the order of concurrent calls.
	atMost := ofServe[1] + ofServe[1]/10
	if ofNode[1] > atMost || ofNode[0] > atMost+2*3*len(names) {
		t.Errorf("podrun-node lists %v times, serve %v times", ofNode, ofServe)
	}
}

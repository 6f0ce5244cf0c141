package serve

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/serve"
	"github.com/podrun/podrun/serve/eviction"
	"github.com/podrun/podrun/serve/supervisor"
	"github.com/podrun/podrun/test/engine/rig"
	"github.com/podrun/podrun/test/ring"
)

const gib = int64(1 << 30)

// usedNode is the resource usage of the host and its pods. The test sets it.
type usedNode struct {
	mu      sync.Mutex
	facts   host.Facts
	pods    map[string]*eviction.Usage // usage of pods, by name
	endless bool                       // Measure ends only with its context
	// if it is not nil, it modifies the facts
	adapt func(host.Facts) host.Facts
}

// plentiful returns a host without pressure: it has 8 GiB of memory, and a disk of 100 GiB.
func plentiful() *usedNode {
	disk := host.Filesystem{Path: "/", CapacityBytes: 100 * gib, AvailableBytes: 90 * gib, Inodes: 1000, InodesFree: 900, Device: 1}
	return &usedNode{pods: map[string]*eviction.Usage{}, facts: host.Facts{
		Capacity: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("8Gi")}, MemoryAvailable: 4 * gib,
		NodeFS: disk, ImageFS: disk, PIDs: host.PIDs{Max: 1000, Used: 10}}}
}

// Node implements supervisor.Stats.
func (u *usedNode) Node(ctx context.Context) (host.Facts, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.adapt != nil {
		return u.adapt(u.facts), ctx.Err()
	}
	return u.facts, ctx.Err()
}

// Pods implements supervisor.Stats.
func (u *usedNode) Pods(_ context.Context, pods []*corev1.Pod) map[string]*eviction.Usage {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := map[string]*eviction.Usage{}
	for _, p := range pods {
		if use := u.pods[p.Name]; use != nil {
			out[string(p.UID)] = use
		}
	}
	return out
}

// Measure implements supervisor.Stats.
func (u *usedNode) Measure(ctx context.Context, _ []*corev1.Pod) {
	if u.endless {
		<-ctx.Done()
	}
}

// change changes the resource usage.
func (u *usedNode) change(f func(*usedNode)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f(u)
}

// memory sets the node's available memory, in bytes.
func (u *usedNode) memory(n int64) { u.change(func(u *usedNode) { u.facts.MemoryAvailable = n }) }

// uses returns the memory usage of a pod with one container.
func uses(memory int64, container string) *eviction.Usage {
	return &eviction.Usage{Memory: memory, Containers: map[string]eviction.ContainerUsage{container: {Memory: memory}}}
}

// pressed is a host with a supervisor, and with the resource usage that the test sets.
type pressed struct {
	*rig.Supervised
	node    *usedNode
	evicted []string // the signals of the evictions so far
}

// pressureTest is rig.Serve on a host whose resource usage the test sets.
func pressureTest(t *testing.T, test func(t *testing.T, s *pressed), opts ...critest.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &pressed{Supervised: rig.NewSupervised(t, opts...), node: plentiful()}
		s.Configure = func(e *run.Node, o *supervisor.Options) {
			o.Stats, o.Images = s.node, serve.Images(e)
			// Only one goroutine calls this function.
			o.Evicted = func(signal string) { s.evicted = append(s.evicted, signal) }
		}
		// The threshold is less than the available memory of this machine.
		s.Settings.EvictionHard = map[string]string{"memory.available": "100Mi"}
		s.Start()
		test(t, s)
		s.node.change(func(u *usedNode) { u.facts, u.adapt = plentiful().facts, nil })
		s.Finish()
	})
}

// statusOf returns the status of a pod on this host, as get shows it.
func statusOf(s *rig.Supervised, name string) corev1.PodStatus {
	s.T.Helper()
	return s.Pod(name).Status
}

func wantEvicted(s *rig.Supervised, name, message string) {
	s.T.Helper()
	st := statusOf(s, name)
	if st.Phase != corev1.PodFailed || st.Reason != "Evicted" || !strings.Contains(st.Message, message) {
		s.T.Errorf("pod %s: %s, %s, %q; want an eviction: %q; warnings %q", name, st.Phase, st.Reason, st.Message, message, s.Warnings())
	}
}

// TestServeEvictsForMemory checks that serve evicts the pod that uses more than it requests. The
// pod's status must show the eviction, and serve must start the pod again after the transition
// period.
func TestServeEvictsForMemory(t *testing.T) {
	t.Parallel()
	pressureTest(t, func(t *testing.T, s *pressed) {
		s.Files.Write(rig.File("web"), rig.ServedPod("web"), rig.ServedPod("db"))
		time.Sleep(5 * time.Second)
		web := s.Running("web")
		s.node.change(func(u *usedNode) {
			u.pods["web"], u.pods["db"] = uses(gib, "web"), uses(3*gib, "db")
			u.adapt = s.lowWhile("db")
		})
		time.Sleep(2 * examine)
		s.Same(web)
		s.Absent("db")
		wantEvicted(s.Supervised, "db", "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. Container db was using 3Gi, request is 0, has larger consumption of memory.")
		if !s.Emitted("Evicted", "The node was low on resource: memory.") {
			t.Errorf("no event: %q", s.Reasons())
		}
		if got := fmt.Sprint(s.evicted); got != "[memory.available]" {
			t.Errorf("evictions were counted for %s", got)
		}
		st := statusOf(s.Supervised, "db")
		if len(st.ContainerStatuses) != 1 || st.ContainerStatuses[0].State.Terminated == nil {
			t.Errorf("the exit state of its container is lost: %+v", st.ContainerStatuses)
		}
		if !slices.ContainsFunc(st.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.DisruptionTarget && c.Reason == "TerminationByKubelet" && c.Status == corev1.ConditionTrue
		}) {
			t.Errorf("conditions %+v", st.Conditions)
		}
		// During the transition period, commands must refuse pods that the supervisor would evict.
		if r := s.Apply(rig.ServedPod("app")); r.Err == nil || !strings.Contains(r.Err.Error(), "MemoryPressure") {
			t.Errorf("apply under pressure: %v", r.Err)
		}
		s.node.change(func(u *usedNode) { u.adapt = nil })
		time.Sleep(4 * time.Minute)
		s.Absent("db")
		time.Sleep(time.Minute + 2*examine)
		s.Running("db")
		s.WantStarts("db", 2)
		s.MustApply(rig.ServedPod("app"), run.OutcomeCreated)
	})
}

// lowWhile makes the node short of memory as long as a container with this name exists.
func (s *pressed) lowWhile(container string) func(host.Facts) host.Facts {
	return func(f host.Facts) host.Facts {
		if _, ok := s.Runtime.Container(container); ok {
			f.MemoryAvailable = 50 << 20
		}
		return f
	}
}

// examine is longer than the interval at which serve examines the node.
const examine = 11 * time.Second

// TestServeEvictionOutlivesServe checks that the next serve does not start an evicted pod.
func TestServeEvictionOutlivesServe(t *testing.T) {
	t.Parallel()
	pressureTest(t, func(t *testing.T, s *pressed) {
		s.Files.Write(rig.File("db"), rig.ServedPod("db"))
		time.Sleep(5 * time.Second)
		s.node.memory(50 << 20)
		time.Sleep(examine)
		s.node.memory(gib)
		wantEvicted(s.Supervised, "db", "memory")
		for range 4 {
			s.Restart()
			time.Sleep(time.Minute)
			s.Absent("db")
			wantEvicted(s.Supervised, "db", "memory")
		}
		time.Sleep(2 * time.Minute)
		s.Running("db")
	})
}

// TestPressureDoesNotWaitForMeasurements covers pods whose volumes cannot be measured in any time: podrun
// nevertheless evicts pods for memory, for disk space and for their limits. In an earlier version, evictions
// waited for the walks of all pods, one after the other.
func TestPressureDoesNotWaitForMeasurements(t *testing.T) {
	t.Parallel()
	pressureTest(t, func(t *testing.T, s *pressed) {
		s.Settings.EvictionHard["nodefs.available"] = "1Gi"
		s.node.endless = true
		s.Restart()
		s.Files.Write(rig.File("web"), rig.ServedPod("web"), rig.ServedPod("app"),
			rig.PodText("db", "Always", "containers: [{name: db, image: registry.example/db:1}]", "volumes: [{name: data, emptyDir: {sizeLimit: 1Mi}}]"))
		time.Sleep(5 * time.Second)
		s.Running("db")
		s.node.change(func(u *usedNode) {
			u.pods["web"], u.pods["app"], u.pods["db"] = uses(3*gib, "web"), uses(gib, "app"), uses(gib, "db")
			u.adapt = s.lowWhile("web")
		})
		time.Sleep(2 * examine)
		wantEvicted(s.Supervised, "web", "memory")
		s.node.change(func(u *usedNode) {
			u.pods["app"] = &eviction.Usage{Containers: map[string]eviction.ContainerUsage{"app": {Logs: eviction.Disk{Bytes: gib}}}}
			u.adapt = func(f host.Facts) host.Facts {
				if _, ok := s.Runtime.Container("app"); ok {
					f.NodeFS.AvailableBytes = gib / 2
				}
				return f
			}
		})
		time.Sleep(2 * examine)
		wantEvicted(s.Supervised, "app", "ephemeral-storage")
		s.Running("db")
		s.node.change(func(u *usedNode) {
			u.adapt = nil
			u.pods["db"] = &eviction.Usage{Prevented: map[string]bool{"data": true}}
		})
		time.Sleep(time.Minute + 2*examine)
		wantEvicted(s.Supervised, "db", `Usage of EmptyDir volume "data" may exceed the limit "1Mi"`)
	})
}

// TestServeEvictionIsFinished covers a serve process that exits while it is stopping an evicted
// pod. The next one must complete the stop, and must not start the pod.
func TestServeEvictionIsFinished(t *testing.T) {
	t.Parallel()
	pressureTest(t, func(t *testing.T, s *pressed) {
		s.Settings.EvictionSoft = map[string]string{"memory.available": "1Gi"}
		s.Settings.EvictionSoftGracePeriod = map[string]string{"memory.available": "30s"}
		s.Settings.EvictionMaxPodGracePeriod = 20
		s.Restart()
		s.Runtime.Script("db", critest.Behavior{Forever: true, IgnoreTERM: true})
		s.Files.Write(rig.File("db"), strings.Replace(rig.ServedPod("db"), "Seconds: 5", "Seconds: 60", 1))
		time.Sleep(5 * time.Second)
		s.node.memory(500 << 20)
		time.Sleep(25 * time.Second)
		// The soft threshold has a grace period, during which the pod runs.
		s.Running("db")
		time.Sleep(20 * time.Second)
		if !s.Emitted("Evicted", "memory") {
			t.Fatalf("not evicted: %q", s.Reasons())
		}
		// The pod also has a grace period.
		s.Running("db")
		s.Restart()
		s.node.memory(4 * gib)
		time.Sleep(time.Minute)
		s.WantStarts("db", 1)
		wantEvicted(s.Supervised, "db", "memory")
		time.Sleep(6 * time.Minute)
		s.WantStarts("db", 2)
	})
}

// TestServeEvictsOneAtATime checks that serve evicts one pod in each pass, by priority, until the
// pressure has ended, and that it never evicts a critical pod.
func TestServeEvictsOneAtATime(t *testing.T) {
	t.Parallel()
	pressureTest(t, func(t *testing.T, s *pressed) {
		for i, name := range []string{"app", "db", "web"} {
			text := rig.ServedPod(name)
			if name == "web" {
				text = strings.Replace(text, "spec:", "spec:\n  priorityClassName: system-node-critical", 1)
			} else {
				text = strings.Replace(text, "spec:", "spec:\n  priority: "+[]string{"10", "5"}[i], 1)
			}
			s.Files.Write(rig.File(name), text)
		}
		time.Sleep(5 * time.Second)
		s.node.change(func(u *usedNode) {
			for _, name := range []string{"app", "db", "web"} {
				u.pods[name] = uses(gib, name)
			}
			u.adapt = s.lowWhile("db")
		})
		time.Sleep(2 * examine)
		wantEvicted(s.Supervised, "db", "memory")
		s.Running("app")
		s.Running("web")
		s.node.change(func(u *usedNode) { u.adapt = nil; u.facts.MemoryAvailable = 50 << 20 })
		time.Sleep(5 * examine)
		wantEvicted(s.Supervised, "app", "memory")
		s.Running("web")
	})
}

// TestServeEnforcesLocalStorage checks that serve evicts a pod that exceeds the limit of an
// emptyDir, or of its containers' disk usage. It must not evict other pods, and the node must not
// be under pressure.
func TestServeEnforcesLocalStorage(t *testing.T) {
	t.Parallel()
	pressureTest(t, func(t *testing.T, s *pressed) {
		limited := rig.PodText("db", "Always", "containers: [{name: db, image: registry.example/db:1}]", "volumes: [{name: data, emptyDir: {sizeLimit: 1Gi}}]")
		s.Files.Write(rig.File("db"), limited)
		s.Files.Write(rig.File("web"), rig.PodText("web", "Always", "containers: [{name: web, image: registry.example/web:1, resources: {limits: {ephemeral-storage: 1Gi}}}]"))
		s.Files.Write(rig.File("app"), rig.ServedPod("app"))
		time.Sleep(5 * time.Second)
		full := &eviction.Usage{Volumes: map[string]eviction.Disk{"data": {Bytes: 2 * gib}}}
		s.node.change(func(u *usedNode) { u.pods["db"], u.pods["app"], u.pods["web"] = full, full, uses(0, "web") })
		time.Sleep(time.Minute + examine)
		wantEvicted(s.Supervised, "db", `Usage of EmptyDir volume "data" exceeds the limit "1Gi".`)
		s.Running("app")
		s.Running("web")
		if slices.ContainsFunc(statusOf(s.Supervised, "db").Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget }) {
			t.Error("a pod that exceeds its own limit has the condition DisruptionTarget")
		}
		s.node.change(func(u *usedNode) {
			u.pods["web"] = &eviction.Usage{Containers: map[string]eviction.ContainerUsage{"web": {Logs: eviction.Disk{Bytes: 2 * gib}}}}
			delete(u.pods, "db")
		})
		time.Sleep(time.Minute + examine)
		wantEvicted(s.Supervised, "web", "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi.")
		s.Running("app")
		time.Sleep(5 * time.Minute)
		s.Running("db") // serve retries the pod
	})
}

// images returns the images on this host by name, with their sizes.
func images(s *rig.Supervised) map[string]int64 {
	list, err := s.Runtime.Client().Images.List(s.T.Context())
	if err != nil {
		s.T.Error(err)
	}
	out := map[string]int64{}
	for _, i := range list {
		out[i.RepoTags[0]] = int64(i.Size)
	}
	return out
}

// TestServeRemovesImages simulates 2.5 h, or 24 h in ring 3. Every 10 minutes, pods are
// created with a new image and others are deleted, and the disk has space for 8 images. The disk
// must never be full, and serve must not remove images that are in use or belong to a stopped pod.
func TestServeRemovesImages(t *testing.T) {
	t.Parallel()
	pressureTest(t, func(t *testing.T, s *pressed) {
		// The disk has space for 16 images, 8 of which belong to the rig.
		const size, slots = 6 * gib, 16
		fullest := int64(0)
		s.node.change(func(u *usedNode) {
			u.adapt = func(f host.Facts) host.Facts {
				used := int64(0)
				for _, size := range images(s.Supervised) {
					used += size
				}
				fullest = max(fullest, used)
				f.ImageFS.CapacityBytes, f.ImageFS.AvailableBytes = slots*size, slots*size-used
				return f
			}
		})
		s.MustApply(rig.PodText("kept", "Always", "containers: [{name: kept, image: registry.example/db:2}]"), run.OutcomeCreated)
		known := s.Known("kept")
		s.NoError(run.StopPods(t.Context(), s.Engine(), known, run.DeleteOptions{}))
		count := 15
		if ring.Is(3) {
			count = 24 * 6
		}
		for i := range count {
			name := "job" + strings.Repeat("x", 1+i%3)
			image := "registry.example/v" + strconv.Itoa(i) + ":1"
			s.Runtime.AddRemote(critest.Image{Name: image, Entrypoint: []string{"/server"}, Size: uint64(size)})
			s.Files.Write(rig.File(name), rig.PodText(name, "Always", "containers: [{name: "+name+", image: '"+image+"'}]"))
			time.Sleep(10 * time.Minute)
			if c := s.Running(name); c.Config.GetImage().GetUserSpecifiedImage() != image {
				t.Fatalf("pod %s runs %s, want %s", name, c.Config.GetImage().GetUserSpecifiedImage(), image)
			}
			here := images(s.Supervised)
			for _, used := range []string{"registry.example/db:2", image} {
				if here[used] == 0 {
					t.Fatalf("after %d pods: %s was removed; there are %q", i, used, slices.Sorted(maps.Keys(here)))
				}
			}
		}
		if fullest >= slots*size || fullest < slots*size/2 {
			t.Errorf("the disk had up to %d of %d GiB", fullest/gib, slots*size/gib)
		}
	})
}

// TestServeReclaimsImagesFirst checks that serve does not evict a pod if removing images suffices.
func TestServeReclaimsImagesFirst(t *testing.T) {
	t.Parallel()
	pressureTest(t, func(t *testing.T, s *pressed) {
		s.Settings.EvictionHard = map[string]string{"imagefs.available": "15%"}
		s.Restart()
		s.Files.Write(rig.File("web"), rig.ServedPod("web"))
		// serve keeps images that were just pulled, because a pod may be about to use them.
		time.Sleep(3 * time.Minute)
		web := s.Running("web")
		s.node.change(func(u *usedNode) {
			// There are 9 images of 10 GiB each, and 10 GiB of other data.
			u.adapt = func(f host.Facts) host.Facts {
				f.ImageFS.AvailableBytes = 90*gib - int64(len(images(s.Supervised)))*10*gib
				f.NodeFS = f.ImageFS
				return f
			}
		})
		time.Sleep(examine)
		if n := len(images(s.Supervised)); n != 2 {
			t.Errorf("%d images are left, want those of the pod and of the sandbox: %v", n, images(s.Supervised))
		}
		if s.Emitted("Evicted", "") {
			t.Errorf("a pod was evicted: %q", s.Reasons())
		}
		s.Same(web)
	})
}

// TestServeLeavesAppliedPodsEvicted checks that an evicted pod that a command had applied remains
// Failed until a command restarts it.
func TestServeLeavesAppliedPodsEvicted(t *testing.T) {
	t.Parallel()
	pressureTest(t, func(t *testing.T, s *pressed) {
		s.MustApply(rig.ServedPod("db"), run.OutcomeCreated)
		time.Sleep(5 * time.Second)
		s.node.change(func(u *usedNode) { u.adapt = s.lowWhile("db") })
		time.Sleep(2 * examine)
		wantEvicted(s.Supervised, "db", "memory")
		s.node.change(func(u *usedNode) { u.adapt = nil })
		time.Sleep(20 * time.Minute)
		s.Absent("db")
		wantEvicted(s.Supervised, "db", "memory")
		s.NoError(rig.RestartPods(t.Context(), s.Engine(), s.Known("db"), run.ApplyOptions{Timeout: rig.Timeout, AllowKubelet: true}))
		s.Running("db")
	})
}

// TestServeEvictsNoPodOfRun checks that serve does not evict pods of podrun run.
func TestServeEvictsNoPodOfRun(t *testing.T) {
	t.Parallel()
	pressureTest(t, func(t *testing.T, s *pressed) {
		s.Runtime.Script("db", critest.Behavior{After: 5 * time.Minute})
		s.Files.Write(rig.File("web"), rig.ServedPod("web"))
		ran := make(chan error, 1)
		go func() {
			_, err := rig.RunPods(context.Background(), s.Engine(), rig.Load(t, rig.PodText("db", "Never", "containers: [{name: db, image: registry.example/db:1}]")), run.RunOptions{ApplyOptions: run.ApplyOptions{AllowKubelet: true, Timeout: rig.Timeout}})
			ran <- err
		}()
		time.Sleep(10 * time.Second)
		s.node.change(func(u *usedNode) { u.pods["db"], u.adapt = uses(gib, "db"), s.lowWhile("db") })
		time.Sleep(time.Minute)
		s.Running("db")
		wantEvicted(s.Supervised, "web", "memory")
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
}

// TestServeRetriesAnEvictedCorruptPod checks that serve replaces an evicted pod after the
// transition period, even if the pod's checkpoint is corrupt.
func TestServeRetriesAnEvictedCorruptPod(t *testing.T) {
	t.Parallel()
	pressureTest(t, func(t *testing.T, s *pressed) {
		s.Files.Write(rig.File("web"), rig.PodText("web", "Always", "containers: [{name: web, image: registry.example/web:1}]", "volumes: [{name: data, emptyDir: {sizeLimit: 1Gi}}]"))
		time.Sleep(5 * time.Second)
		s.node.change(func(u *usedNode) {
			u.pods["web"] = &eviction.Usage{Volumes: map[string]eviction.Disk{"data": {Bytes: 2 * gib}}}
		})
		time.Sleep(time.Minute + examine)
		wantEvicted(s.Supervised, "web", "exceeds the limit")
		s.End()
		s.node.change(func(u *usedNode) { delete(u.pods, "web") })
		if err := os.Truncate(s.Layout().Pod(s.Known("web")[0].ID.UID).Checkpoint(), 25); err != nil {
			t.Fatal(err)
		}
		s.Start()
		time.Sleep(3 * time.Minute)
		s.Absent("web")
		time.Sleep(3 * time.Minute)
		s.Running("web")
		s.WantStarts("web", 2)
	})
}

package parity

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/lookup"
)

// settle is the time after the last acting call at which the test removes the pod, as in the
// kubelet's recordings.
const settle = 3 * time.Second

// rig is a host for one pod. Its runtime responds like the one with which the kubelet was
// recorded.
type rig struct {
	t        *testing.T
	world    world
	rt       *critest.Runtime
	settings nodeconfig.Settings
	images   map[string]string // names of images, by ID
	// UID of the pod, after the request for its sandbox
	uid string

	mu     sync.Mutex
	events []string
}

func newRig(t *testing.T, pod *corev1.Pod, w world) *rig {
	t.Helper()
	dir := t.TempDir()
	s := nodeconfig.Default()
	s.RootDir, s.PodLogsDir, s.ContainerLogsDir = filepath.Join(dir, "root"), filepath.Join(dir, "logs"), filepath.Join(dir, "links")
	s.CgroupRoot = "/podrun-parity-" + run.NewInvocation()
	s.CgroupDriver = "cgroupfs"
	s.HostnameOverride, s.NodeIP = node, []string{hostIP}
	s.ClusterDNS, s.ClusterDomain = []string{"10.96.0.10"}, "cluster.local"
	s.ResolvConf = filepath.Join(dir, "resolv.conf")
	s.RegistryPullQPS, s.EvictionHard = 0, map[string]string{"memory.available": "1Mi"}
	if err := os.WriteFile(s.ResolvConf, []byte("nameserver 192.0.2.53\nsearch host.example\noptions ndots:2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	features := &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: true, UserNamespaces: true}
	options := []critest.Option{
		critest.Version("containerd", "v2.4.2"), critest.CgroupDriver(runtimeapi.CgroupDriver_CGROUPFS),
		critest.Features(&runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true}),
		critest.Handler("", features), critest.Handler("runc", features),
	}
	if !w.bare {
		options = append(options, critest.NoImageDetails())
	}
	r := &rig{t: t, world: w, settings: s, images: map[string]string{}, rt: critest.ForTest(t, options...)}
	r.addImages(pod)
	if !w.bare {
		r.addSeccomp(pod)
	}
	if !w.real {
		r.script(pod)
	}
	t.Cleanup(func() { r.removeCgroups() })
	return r
}

// addImages creates every image of the pod, with two exceptions: images named absent exist only in
// a registry, and images named broken do not exist. The user of an image is part of its name.
func (r *rig) addImages(pod *corev1.Pod) {
	names := []string{}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		names = append(names, c.Image)
	}
	for _, v := range pod.Spec.Volumes {
		if v.Image != nil {
			names = append(names, v.Image.Reference)
		}
	}
	for _, name := range names {
		sum := sha256.Sum256([]byte(tagged(name)))
		image := critest.Image{Name: name, ID: fmt.Sprintf("sha256:%x", sum), User: "0"}
		switch {
		case strings.Contains(name, "nonroot"):
			image.User = "65532"
		case strings.Contains(name, "username"):
			image.User = "app"
		}
		r.images[image.ID] = "<IMAGE:" + tagged(name) + ">"
		switch {
		case strings.Contains(name, "broken"):
			image.PullErr = status.Errorf(codes.NotFound, "failed to pull and unpack image %q: not found", name)
			r.rt.AddRemote(image)
		case strings.Contains(name, "absent"):
			r.rt.AddRemote(image)
		default:
			r.rt.AddImage(image)
		}
	}
}

// addSeccomp creates the pod's seccomp profiles.
func (r *rig) addSeccomp(pod *corev1.Pod) {
	profiles := []*corev1.SeccompProfile{}
	if sc := pod.Spec.SecurityContext; sc != nil {
		profiles = append(profiles, sc.SeccompProfile)
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if c.SecurityContext != nil {
			profiles = append(profiles, c.SecurityContext.SeccompProfile)
		}
	}
	for _, p := range profiles {
		if p == nil || p.LocalhostProfile == nil {
			continue
		}
		file := filepath.Join(r.settings.RootDir, "seccomp", *p.LocalhostProfile)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			r.t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(`{"defaultAction": "SCMP_ACT_ALLOW"}`), 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
}

// script determines how long containers run: until podrun stops them, except containers whose
// names begin with init, and those whose exit the pod's annotation specifies.
func (r *rig) script(pod *corev1.Pod) {
	codes := map[string]string{}
	for end := range strings.SplitSeq(pod.Annotations["crioracle/exits"], ",") {
		if name, code, ok := strings.Cut(end, "="); ok {
			codes[name] = code
		}
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		b := critest.Behavior{Forever: true, CleanTERM: true, TERMAfter: 50 * time.Millisecond}
		if code, ends := codes[c.Name]; ends {
			n, err := strconv.Atoi(code)
			if err != nil {
				r.t.Fatal(err)
			}
			b = critest.Behavior{ExitCode: int32(n)}
		} else if strings.HasPrefix(c.Name, "init") {
			b = critest.Behavior{}
		}
		r.rt.Script(c.Name, b)
		r.rt.ScriptExec(c.Name, func(cmd []string) *critest.Exec {
			if len(cmd) > 0 && cmd[len(cmd)-1] == "false" {
				return &critest.Exec{ExitCode: 1}
			}
			return &critest.Exec{}
		})
	}
}

// engine returns a podrun process on the host.
func (r *rig) engine() *run.Node {
	return &run.Node{Client: r.rt.Client(), Settings: r.settings, Invocation: run.NewInvocation(), Command: "podrun test",
		Emit: func(e event.Event) {
			r.mu.Lock()
			defer r.mu.Unlock()
			line := e.Type + " " + e.Reason
			if e.FieldPath != "" {
				line += " " + e.FieldPath
			}
			line = eventNoise.ReplaceAllString(line+": "+e.Message, "<N>")
			if !slices.Contains(r.events, line) {
				r.events = append(r.events, line)
			}
		},
	}
}

// eventNoise is the part of an event in which two events of the same kind differ.
var eventNoise = regexp.MustCompile(`[0-9a-f]{64}|\b[0-9.]+m?s\b`)

// live applies the pod as `podrun apply --wait=completed` does. It waits until no further acting
// call arrives, and deletes the pod. It returns the requests and the created files. If the pod
// could not be started, it returns the error of apply.
func (r *rig) live(objects *manifest.Objects) (recording, error) {
	ctx, cancel := context.WithCancelCause(r.t.Context())
	defer cancel(nil)
	go r.watch(ctx, cancel)
	results, err := run.ApplyPods(ctx, r.engine(), objects, run.ApplyOptions{Wait: lifecycle.GoalCompleted, AllowKubelet: true, KeepOnFailure: true})
	if err == nil && !errors.Is(results[0].Err, errSettled) {
		err = results[0].Err
	}
	var rec recording
	if len(r.rt.Sandboxes()) > 0 {
		rec = recording{Files: r.files(), Cgroup: r.cgroup()}
	}
	e := r.engine()
	known, ferr := lookup.Find(r.t.Context(), e, lookup.Selector{})
	if ferr != nil {
		r.t.Fatal(ferr)
	}
	deleted, derr := run.DeletePods(r.t.Context(), e, known, run.DeleteOptions{})
	if derr != nil {
		r.t.Fatal(derr)
	}
	for _, d := range deleted {
		if d.Err != nil {
			r.t.Error(d.Err)
		}
	}
	r.sent(&rec)
	rec.Events = r.events
	return rec, err
}

var errSettled = errors.New("nothing more comes")

// watch cancels the context when no acting call has arrived for a while.
func (r *rig) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	for last := time.Now(); time.Since(last) <= settle; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
		starts := 0
		for _, c := range r.rt.Calls() {
			if acting[c.Method] && c.Method != "ExecSync" && c.End.After(last) {
				last = c.End
			}
			if c.Method == "StartContainer" {
				starts++
			}
		}
		if r.world.starts > 0 && starts == r.world.starts {
			break
		}
	}
	cancel(errSettled)
}

// acting are the calls that a recording keeps. The others only read or clean up.
var acting = map[string]bool{
	"RunPodSandbox": true, "StopPodSandbox": true, "CreateContainer": true, "StartContainer": true, "StopContainer": true,
	"UpdateContainerResources": true, "ExecSync": true, "ImageStatus": true, "PullImage": true,
}

// ofSandboxImage reports whether a call requests the status of the runtime's sandbox image. Such a
// call concerns the host, not a pod.
func ofSandboxImage(request any) bool {
	status, ok := request.(*runtimeapi.ImageStatusRequest)
	return ok && status.GetImage().GetImage() == critest.SandboxImage
}

// detailed reports whether a call requests an image's configuration. Such a call reads a fact for
// admission, and is not part of starting a container.
func detailed(request any) bool {
	status, ok := request.(*runtimeapi.ImageStatusRequest)
	return ok && status.GetVerbose()
}

// sent adds the requests to the runtime to a recording.
func (r *rig) sent(rec *recording) {
	rec.Containers = map[string][]any{}
	calls := r.rt.Calls()
	sortStops(calls)
	sortAhead(calls)
	requests := map[string]bool{}
	for _, c := range calls {
		if !acting[c.Method] || ofSandboxImage(c.Request) || detailed(c.Request) {
			continue
		}
		label := c.Name()
		switch req := c.Request.(type) {
		case *runtimeapi.RunPodSandboxRequest:
			r.uid = req.GetConfig().GetMetadata().GetUid()
			rec.Sandboxes = append(rec.Sandboxes, sandboxRequest{r.normal(asRecorded(r.t, req.GetConfig())), req.GetRuntimeHandler()})
		case *runtimeapi.CreateContainerRequest:
			if have := rec.Containers[c.Subject]; len(have) < 2 {
				rec.Containers[c.Subject] = append(have, r.normal(containerAsRecorded(r.t, req.GetConfig())))
			}
			if last := rec.Sandboxes[len(rec.Sandboxes)-1].Config; compact(last) != compact(r.normal(asRecorded(r.t, req.GetSandboxConfig()))) {
				r.t.Errorf("CreateContainer %s came with another sandbox_config", c.Subject)
			}
		case *runtimeapi.ImageStatusRequest:
			rec.Images = append(rec.Images, r.normal(asRecorded(r.t, req)))
		case *runtimeapi.PullImageRequest:
			pull := asRecorded(r.t, req)
			delete(pull, "sandbox_config")
			rec.Pulls = append(rec.Pulls, r.normal(pull))
		default:
			m := asRecorded(r.t, req)
			if _, of := m["container_id"]; of {
				m["container_id"] = "<CONTAINER:" + c.Subject + ">"
			} else if _, of := m["pod_sandbox_id"]; of {
				m["pod_sandbox_id"] = "<SANDBOX>"
			}
			if key := c.Method + compact(m); !requests[key] {
				requests[key] = true
				rec.Others = append(rec.Others, struct {
					Method  string
					Request map[string]any
				}{c.Method, m})
			}
			if c.Method == "ExecSync" && m["timeout"] != nil {
				continue // the call belongs to a probe
			}
		}
		if c.Err != nil {
			label += " -> " + status.Code(c.Err).String()
		}
		rec.Calls = append(rec.Calls, label)
	}
	rec.Calls = dedupe(rec.Calls)
}

// If the start of a container and the creation of the next one begin at the same instant, sortAhead puts
// the start first. podrun sends both concurrently (run/start/ahead.go), so their order varies. A kubelet
// sends the creation after the start. Each call is compared; test/engine/start.TestCreateAhead checks the
// times of the calls.
func sortAhead(calls []critest.Call) {
	for i, c := range calls {
		if c.Method != "StartContainer" {
			continue
		}
		to := i
		for j := i - 1; j >= 0 && calls[j].Start.Equal(c.Start) && calls[j].Subject != c.Subject; j-- {
			// Other calls, such as those of a pull, may be between the two.
			if calls[j].Method == "CreateContainer" {
				to = j
			}
		}
		copy(calls[to+1:i+1], calls[to:i])
		calls[to] = c
	}
}

// sortStops sorts concurrent StopContainer calls by the names of the containers, because their
// order varies. Calls that begin at the same instant are concurrent, regardless of when they
// return.
func sortStops(calls []critest.Call) {
	for i := 0; i < len(calls); i++ {
		j := i
		var end time.Time
		for ; j < len(calls) && calls[j].Method == "StopContainer" && (j == i || calls[j].Start.Equal(calls[i].Start) || calls[j].Start.Before(end)); j++ {
			if j == i || calls[j].End.Before(end) {
				end = calls[j].End
			}
		}
		if j > i {
			slices.SortStableFunc(calls[i:j], func(a, b critest.Call) int { return strings.Compare(a.Subject, b.Subject) })
			i = j - 1
		}
	}
}

// normal replaces image names, random names and the cgroup root with the corresponding words of the
// recordings.
func (r *rig) normal(v any) any {
	switch v := v.(type) {
	case string:
		if name, is := r.images[v]; is {
			return name
		}
		return randomName.ReplaceAllString(strings.TrimPrefix(v, r.settings.CgroupRoot), "$1/<RANDOM>")
	case []any:
		for i := range v {
			v[i] = r.normal(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = r.normal(v[k])
		}
	}
	return v
}

// removeCgroups removes the cgroups of pods of a failed test.
func (r *rig) removeCgroups() {
	roots, err := filepath.Glob("/sys/fs/cgroup/*" + r.settings.CgroupRoot)
	if err != nil {
		r.t.Error(err)
	}
	for _, root := range roots {
		var all []string
		err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				all = append(all, path)
			}
			return err
		})
		for _, d := range slices.Backward(all) {
			err = errors.Join(err, os.Remove(d))
		}
		if err != nil {
			r.t.Error(err)
		}
	}
}

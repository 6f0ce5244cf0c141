package update

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/imagestore"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/test/engine/rig"
	"github.com/podrun/podrun/test/ring"
)

// TestSimulatedUpdates simulates a device that gets good and bad updates: of a pod with a ConfigMap, and of a Deployment with
// three replicas. During the updates, serve is interrupted, the host reboots, the runtime or the registry or the source is not
// available, tags of images move, and unused images are removed. From outside, it checks at each moment that one of the two
// definitions runs or is starting, that a rejected definition is not tried again, and that the image of the last good one
// exists; and at rest, that the right definition runs.
//
// In ring 1, it simulates six hours with 3 seeds, in ring 2 a day, and in ring 3 a week with 30 seeds. PODRUN_SEED selects one.
func TestSimulatedUpdates(t *testing.T) {
	length, seeds := 6*time.Hour, 3
	switch {
	case ring.Is(3):
		length, seeds = 7*24*time.Hour, 30
	case ring.Is(2):
		length = 24 * time.Hour
	}
	for seed := range uint64(seeds) {
		if only := os.Getenv("PODRUN_SEED"); only != "" && only != fmt.Sprint(seed) {
			continue
		}
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			rig.ServeWithoutCgroups(t, func(t *testing.T, s *rig.Supervised) { newDevice(s, seed).live(length) })
		})
	}
}

// device is a host with workloads that get updates.
type device struct {
	*rig.Supervised
	rand      *rand.Rand
	workloads []*updated
	versions  int
	disturbed time.Time // end of the last disturbance that may keep pods from running
	down      bool      // serve, the runtime or a pod has been stopped
	did       map[string]int
	trace     []string
}

// updated is a workload whose file changes.
type updated struct {
	name     string
	replicas []string  // names of its pods
	file     release   // in the file
	running  release   // the definition that is expected to run at rest
	good     []release // the definitions that may be the last good one: the second one if it was good for a short time only
	// others are the definitions of the file since the last rest
	others   []release
	image    string               // ID of the image of the last good definition
	rejected map[string]time.Time // by pod: when the definition in the file was first rejected
	ran      map[string]time.Time // by pod: when a container last ran, or serve could not start one
}

// release is a definition of a workload.
type release struct {
	version int    // of the pod, in its arguments and in the tag of its image
	mode    string // content of the ConfigMap, which a container has as a variable
	kind    string // a key of releases
}

func (r release) String() string { return fmt.Sprintf("v%d %s", r.version, r.mode) }

// The kinds of definitions: the name of the container, and further fields of it.
var releases = map[string]struct{ container, fields string }{
	"good":          {"app", ""},
	"slow":          {"app", "readinessProbe: {exec: {command: [sh, -c, exit 0]}, initialDelaySeconds: 90, periodSeconds: 60}"},
	"slow start":    {"app", "startupProbe: {exec: {command: [sh, -c, exit 0]}, initialDelaySeconds: 200, periodSeconds: 30, failureThreshold: 100}"},
	"configured":    {"app", `readinessProbe: {exec: {command: [sh, -c, '[ "${MODE#bad}" = "$MODE" ]']}, periodSeconds: 30}`},
	"bad probe":     {"app", "readinessProbe: {exec: {command: [sh, -c, exit 1]}, periodSeconds: 30}"},
	"bad hook":      {"app", "lifecycle: {postStart: {exec: {command: [sh, -c, exit 1]}}}"},
	"bad program":   {"nostart", ""},
	"bad exit":      {"crash", ""},
	"bad replica":   {"app", `readinessProbe: {exec: {command: [sh, -c, '[ "$POD" != shop-1 ]']}, periodSeconds: 30}`},
	"absent image":  {"app", ""},
	"absent config": {"app", ""},
}

// bad reports whether the definition must be rolled back.
func (r release) bad() bool {
	return strings.HasPrefix(r.kind, "bad") || r.kind == "configured" && strings.HasPrefix(r.mode, "bad")
}

// refused reports whether the definition never takes effect.
func (r release) refused() bool { return strings.HasPrefix(r.kind, "absent") }

func newDevice(s *rig.Supervised, seed uint64) *device {
	s.ExitsWithin = 10 * time.Second // of serve that is interrupted in a call
	d := &device{Supervised: s, rand: rand.New(rand.NewPCG(seed, 61)), did: map[string]int{}}
	s.Runtime.Script("crash", critest.Behavior{After: 3 * time.Second, ExitCode: 1})
	s.Runtime.Script("nostart", critest.Behavior{StartErr: "no such file or directory"})
	d.workloads = []*updated{{name: "web", replicas: []string{"web"}}, {name: "shop", replicas: []string{"shop", "shop-1", "shop-2"}}}
	for _, w := range d.workloads {
		w.rejected, w.ran = map[string]time.Time{}, map[string]time.Time{}
	}
	return d
}

// text returns the manifest of a definition.
func (w *updated) text(r release) string {
	kind := releases[r.kind]
	container := fmt.Sprintf("{name: %s, image: 'registry.example/app:v%d', args: [v%d], env: [{name: MODE, valueFrom: {configMapKeyRef: {name: %s, key: mode}}}, {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}], %s}",
		kind.container, r.version, r.version, w.name, kind.fields)
	annotations := "annotations: {podrun.dev/replicas: honour, podrun.dev/progress-deadline: 2m}"
	key := "mode"
	if r.kind == "absent config" {
		key = "other"
	}
	spec := "{terminationGracePeriodSeconds: 5, containers: [" + container + "]}"
	configMap := fmt.Sprintf("\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {%s: %s}\n", w.name, key, r.mode)
	restarts := `podrun.dev/restart-on-change: "true"`
	if len(w.replicas) == 1 {
		return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, annotations: {podrun.dev/progress-deadline: 2m, %s}}\nspec: %s", w.name, restarts, spec) + configMap
	}
	return fmt.Sprintf("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: %[1]s, %[2]s}\nspec: {replicas: %[3]d, selector: {matchLabels: {app: %[1]s}}, template: {metadata: {labels: {app: %[1]s}, annotations: {%[4]s}}, spec: %[5]s}}",
		w.name, annotations, len(w.replicas), restarts, spec) + configMap
}

// next returns another definition.
func (d *device) next(w *updated) release {
	d.versions++
	r := release{version: d.versions, mode: fmt.Sprint("good-", d.versions), kind: "good"}
	switch n := d.rand.IntN(20); {
	case n < 3: // only the ConfigMap changes
		r = w.file
		r.mode = fmt.Sprint([]string{"good-", "bad-"}[d.rand.IntN(2)], d.versions)
		if r.kind == "absent config" {
			r.kind = "good"
		}
	case n < 5:
		r.kind = "configured"
	case n < 7:
		r.kind = "slow"
	case n < 8:
		r.kind = "slow start"
	case n < 15:
		r.kind = []string{"bad probe", "bad hook", "bad program", "bad exit", "bad replica", "absent image", "absent config"}[n-8]
		if r.kind == "bad replica" && len(w.replicas) == 1 {
			r.kind = "bad probe"
		}
	}
	if r.kind != "absent image" {
		d.Runtime.AddRemote(critest.Image{Name: r.image(), Entrypoint: []string{"/server"}})
	}
	return r
}

func (r release) image() string { return fmt.Sprintf("registry.example/app:v%d", r.version) }

// write puts a definition into the file.
func (d *device) write(w *updated, r release) {
	w.others = append(w.others, r)
	w.file = r
	clear(w.rejected)
	d.Files.Write(rig.File(w.name), w.text(r))
}

func (d *device) note(format string, args ...any) {
	d.trace = append(d.trace, time.Now().Format("02 15:04:05 ")+fmt.Sprintf(format, args...))
}

func (d *device) live(length time.Duration) {
	end := time.Now().Add(length)
	for _, w := range d.workloads {
		d.versions++
		w.running = release{version: d.versions, mode: "good-0", kind: "good"}
		w.good = []release{w.running}
		d.Runtime.AddRemote(critest.Image{Name: w.running.image(), Entrypoint: []string{"/server"}})
		d.write(w, w.running)
	}
	d.rest(10 * time.Minute)
	for time.Now().Before(end) && !d.T.Failed() {
		d.updateOnce()
		d.watchFor(time.Duration(d.rand.IntN(240)) * time.Minute)
		d.Runtime.ForgetCalls()
	}
	if d.T.Failed() {
		d.T.Logf("before that: %s; warnings %q", strings.Join(lastOf(d.trace, 25), "; "), lastOf(d.Warnings(), 10))
	}
	d.T.Logf("%d versions, %d pods rolled back, %v", d.versions, rolledBack(d.Supervised), d.did)
}

// lastOf returns the last n elements of a list.
func lastOf(list []string, n int) []string { return list[max(0, len(list)-n):] }

// updateOnce changes one or both workloads, disturbs the update, and checks the result at rest.
func (d *device) updateOnce() {
	changed := d.workloads[:1+d.rand.IntN(2)]
	if len(changed) == 1 && d.rand.IntN(2) == 0 {
		changed = d.workloads[1:]
	}
	for _, w := range changed {
		r := d.next(w)
		d.note("%s gets %s (%s)", w.name, r, r.kind)
		d.write(w, r)
	}
	if d.rand.IntN(5) == 0 { // an update during the update
		w := changed[0]
		after := time.Duration(d.rand.IntN(200)) * time.Second
		d.watchFor(after)
		// It may be the last good one, or not, because the time is too short, or it was not in effect for the whole time.
		if first := w.file; !first.bad() && !first.refused() {
			w.good = append(w.good, first)
		}
		r := d.next(w)
		d.note("%s gets %s (%s) after %s", w.name, r, r.kind, after)
		d.write(w, r)
	}
	boots := 0
	for range d.rand.IntN(4) {
		d.watchFor(time.Duration(d.rand.IntN(90)) * time.Second)
		what := d.disturb(changed[0], &boots)
		d.did[what]++
		d.note("%s", what)
	}
	d.rest(40 * time.Minute)
}

// disturb disturbs an update, until the disturbance has ended.
func (d *device) disturb(w *updated, boots *int) string {
	long := time.Duration(1+d.rand.IntN(40)) * time.Minute
	kind := d.rand.IntN(9)
	if kind >= 7 {
		if *boots++; *boots > 1 { // several new sandboxes in a row: a slow definition would count as bad
			kind = 0
		}
	}
	switch kind {
	case 0:
		d.down = true
		d.Restart()
		d.up()
		return "serve restarted"
	case 1:
		return d.interrupt()
	case 2:
		end := d.Outage()
		d.down = true
		d.watchFor(time.Duration(1+d.rand.IntN(300)) * time.Second)
		end()
		d.up()
		return "the runtime was not available"
	case 7:
		d.down = true
		d.End()
		d.Runtime.Restart()
		time.Sleep(30 * time.Second)
		d.Start()
		d.up()
		return "the host booted"
	case 4:
		end := d.Runtime.Fault("PullImage", critest.Fault{When: critest.Before, Err: status.Error(codes.Unavailable, "dial tcp: connection refused")})
		d.watchFor(long)
		end()
		return "the registry was not available"
	case 5:
		d.Files.Reach(rig.ManifestDir, false)
		d.watchFor(long)
		d.Files.Reach(rig.ManifestDir, true)
		return "the source was not available"
	case 6:
		for _, g := range w.good { // the tags of good images now name others
			d.Runtime.AddRemote(critest.Image{Name: g.image(), ID: fmt.Sprintf("sha256:%064x", d.rand.Uint64()), Entrypoint: []string{"/server"}})
		}
		return "tags moved"
	case 3:
		if _, err := imagestore.Prune(d.T.Context(), d.Engine(), imagestore.PruneInput{All: true}); err != nil {
			d.T.Error(err)
		}
		return "images were pruned"
	}
	d.down = true
	for _, result := range run.StopPods(d.T.Context(), d.Engine(), d.Known(w.replicas[0]), run.DeleteOptions{}) {
		d.Must(nil, result.Err)
	}
	time.Sleep(long)
	if _, err := run.StartPods(d.T.Context(), d.Engine(), d.Known(w.replicas[0]), run.ApplyOptions{AllowKubelet: true}); err != nil {
		d.T.Error(err)
	}
	d.up()
	return "a pod was stopped and started"
}

// interrupt ends serve while a call to the runtime has had its effect, and serve does not have its answer.
func (d *device) interrupt() string {
	methods := []string{"StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox", "RunPodSandbox", "CreateContainer", "StartContainer", "ExecSync", "ContainerStatus", "ListPodSandbox"}
	method := methods[d.rand.IntN(len(methods))]
	called := make(chan struct{})
	end := d.Runtime.Fault(method, critest.Fault{When: critest.EffectThenHang, Times: 1, Skip: d.rand.IntN(2), Done: func() { close(called) }})
	begun := time.Now()
	for waiting := true; waiting && time.Since(begun) < 3*time.Minute; {
		select {
		case <-called:
			waiting = false
		case <-time.After(5 * time.Second):
			d.judge()
		}
	}
	d.down = true
	d.Restart()
	end()
	d.up()
	return "serve interrupted in " + method
}

// up begins the time in which pods must run again.
func (d *device) up() { d.down, d.disturbed = false, time.Now() }

// watchFor judges the state every five seconds, and less often at rest.
func (d *device) watchFor(length time.Duration) {
	begun := time.Now()
	for time.Since(begun) < length && !d.T.Failed() {
		pause := 5 * time.Second
		if time.Since(begun) > 20*time.Minute {
			pause = time.Minute
		}
		time.Sleep(pause)
		d.judge()
	}
}

// version returns the definition of a container, as it is seen from outside.
func versionOf(c critest.Container) string {
	mode := ""
	for _, e := range c.Config.GetEnvs() {
		if e.GetKey() == "MODE" {
			mode = string(e.GetValue())
		}
	}
	return strings.Join(c.Config.GetArgs(), " ") + " " + mode
}

// judge compares the runtime with the definitions that may run.
func (d *device) judge() {
	containers := d.Runtime.Containers()
	for _, w := range d.workloads {
		var may []string
		for _, r := range slices.Concat(w.good, w.others, []release{w.running}) {
			may = append(may, r.String())
		}
		for _, pod := range w.replicas {
			d.judgePod(w, pod, may, slices.DeleteFunc(slices.Clone(containers), func(c critest.Container) bool {
				return c.Config.GetLabels()["io.kubernetes.pod.name"] != pod
			}))
		}
		// Another good definition since then may be the last good one, and the image unused.
		if w.image != "" && !slices.ContainsFunc(w.others, func(r release) bool { return r != w.running && !r.bad() && !r.refused() }) {
			found, err := d.Runtime.ImageStatus(d.T.Context(), &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: w.image}})
			if err != nil || found.GetImage() == nil {
				d.T.Errorf("%s: the image %s of the last good definition was removed: %v", w.name, w.image, err)
			}
		}
	}
}

// maxPause is the longest time in which no container of a pod may run: the back-off of a container that exits, twice.
const maxPause = 2 * time.Minute

func (d *device) judgePod(w *updated, pod string, may []string, containers []critest.Container) {
	now := time.Now()
	if !d.down && w.rejected[pod].IsZero() && w.file.bad() && update(d.Supervised, pod).State == store.UpdateRolledBack && d.pendingNow(pod) == "RolledBack" {
		w.rejected[pod] = now
	}
	runs := false
	for _, c := range containers {
		version := versionOf(c)
		if c.FinishedAt.IsZero() && !c.StartedAt.IsZero() {
			runs = true
			if !slices.Contains(may, version) {
				d.T.Errorf("%s: %s runs, which is neither of %q", pod, version, may)
			}
		}
		if at := w.rejected[pod]; !at.IsZero() && c.CreatedAt.After(at) && version == w.file.String() && !slices.Contains(w.good, w.file) {
			d.T.Errorf("%s: %s was rejected at %s, and tried again at %s", pod, version, at.Format("15:04:05"), c.CreatedAt.Format("15:04:05"))
		}
	}
	if runs || d.down || w.ran[pod].Before(d.disturbed) {
		w.ran[pod] = now
	}
	if since := now.Sub(w.ran[pod]); since > maxPause {
		d.T.Errorf("%s: no container has run for %s; update %+v, containers %d", pod, since, update(d.Supervised, pod), len(containers))
	}
}

// pendingNow returns the reason for which the definition of the source is not in effect; "" if it is in effect.
func (d *device) pendingNow(pod string) string {
	known := d.Known(pod)
	if len(known) == 0 {
		return ""
	}
	if c := pending(d.Supervised, pod); c != nil {
		return c.Reason
	}
	return ""
}

// rest waits until all updates must have ended, and checks which definitions run.
func (d *device) rest(length time.Duration) {
	d.watchFor(length)
	for _, w := range d.workloads {
		if d.T.Failed() {
			return
		}
		want, state, reason := []release{w.file}, store.UpdateGood, ""
		switch {
		case w.file.bad():
			want, state, reason = w.good, store.UpdateRolledBack, "RolledBack"
		case w.file.refused():
			want, state, reason = w.good, "", "*"
		}
		d.checkAtRest(w, want, state, reason)
	}
}

func (d *device) checkAtRest(w *updated, want []release, state store.UpdateState, reason string) {
	var runs []string
	for _, pod := range w.replicas {
		var version, image string
		for _, c := range d.Runtime.Containers() {
			if c.Config.GetLabels()["io.kubernetes.pod.name"] == pod && c.FinishedAt.IsZero() && !c.StartedAt.IsZero() {
				version, image = versionOf(c), c.Config.GetImage().GetImage()
			}
		}
		i := slices.IndexFunc(want, func(r release) bool { return r.String() == version })
		if i < 0 {
			d.T.Errorf("%s: %q runs, want one of %q, because the file has %s (%s); update %+v; condition %q", pod, version, want, w.file, w.file.kind, update(d.Supervised, pod), d.pendingNow(pod))
			return
		}
		runs = append(runs, version)
		w.running = want[i]
		// A replica that did not get the bad definition has nothing to restore.
		if u := update(d.Supervised, pod); state != "" && u.State != state && (state == store.UpdateGood || len(w.replicas) == 1) {
			d.T.Errorf("%s: %s runs, the update is %+v, want %s", pod, version, u, state)
		}
		if got := d.pendingNow(pod); reason != "*" && got != reason || reason == "*" && got == "" {
			d.T.Errorf("%s: the condition has the reason %q, want %q", pod, got, reason)
		}
		w.image = image
	}
	if slices.Sort(runs); runs[0] != runs[len(runs)-1] {
		d.T.Errorf("%s: replicas run %q", w.name, runs)
	}
	w.good, w.others = []release{w.running}, []release{w.file}
}

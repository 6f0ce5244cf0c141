package state

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/host/doctor"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/servicesync"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve"
	"github.com/podrun/podrun/test/engine/rig"
)

// damages are all ways in which a state file can be damaged: those of corruptFiles, and three more.
func damages() []string {
	return append(slices.Sorted(maps.Keys(corruptFiles)), "a directory", "unreadable", "newer")
}

// damage damages a file. An unreadable file is one whose reads fail with EIO.
func damage(t testing.TB, path, how string) {
	t.Helper()
	var err error
	switch how {
	case "a directory":
		_ = os.Remove(path)
		err = os.MkdirAll(filepath.Join(path, "sub"), 0o750)
	case "newer":
		err = os.WriteFile(path, newerText(t, path), 0o600)
	case "unreadable":
		if err = unix.Mount("/proc/self/mem", path, "", unix.MS_BIND, ""); err == nil {
			t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
		}
	default:
		spoil(t, path, how)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// newerText returns a content that a newer podrun might write, in the format of the file.
func newerText(t testing.TB, path string) []byte {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if json.Unmarshal(data, &object) == nil {
		for _, field := range []string{"schema", "schemaVersion"} {
			if object[field] != nil {
				object[field] = 99
			}
		}
		data, err = json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	return []byte("# podrun schema 99\n{\"new\": true}")
}

// stateRig is a host with a pod "web", the Services "web" and "good", a workload and records of Jobs.
type stateRig struct {
	*rig.Host
	uid string
}

func serviceOf(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "192.0.2.7"}}
}

func newStateRig(t *testing.T) *stateRig {
	r := &stateRig{Host: rig.New(t)}
	if _, _, err := servicesync.Apply(t.Context(), r.Engine(), map[string]*corev1.Service{"default/web": serviceOf("web"), "default/good": serviceOf("good")}, servicesync.Options{}); err != nil {
		t.Fatal(err)
	}
	r.uid = r.MustApply(rig.Web("Always"), run.OutcomeCreated).ID.UID
	if _, err := servicesync.Sync(t.Context(), r.Engine()); err != nil {
		t.Fatal(err)
	}
	return r
}

// sharedFiles creates the files that belong to the host, or to an object other than the pod "other", and
// returns their paths.
func (r *stateRig) sharedFiles() []string {
	l := r.Layout()
	web := identity.Pod{Namespace: "default", Name: "web", UID: r.uid}
	meta := metav1.ObjectMeta{Namespace: "default", Name: "web"}
	for _, err := range []error{
		store.WriteServiceRanges(l, nil),
		store.WriteWorkload(l, store.WorkloadRecord{ID: web, Kind: "Deployment"}),
		store.WriteJob(l, &store.JobRecord{Job: &batchv1.Job{ObjectMeta: meta}}),
		store.WriteCronJob(l, &store.CronJobRecord{CronJob: &batchv1.CronJob{ObjectMeta: meta}}),
		store.WriteSource(l, web, store.SourceRecord{Path: rig.File("web")}),
		store.WritePending(l, nil),
	} {
		if err != nil {
			r.T.Fatal(err)
		}
	}
	out := []string{l.Services().Names(), l.Services().Ranges(), l.Services().Service(web), l.Workload(web), l.Job("default", "web"), l.CronJob("default", "web"), l.Serve().Source(web), l.Serve().Pending(), l.Owner(web)}
	for path, text := range map[string]string{
		l.Serve().Pressure(): "{}", l.Serve().ImageUse(): "{}", l.Serve().ShuttingDown(): "x", l.Serve().DirIdentities(): "{}", l.History(web): "{}",
		filepath.Join(l.Serve().RemoteCopies(), "x"): "{}", filepath.Join(l.Reservations(), "1"): "{}",
		filepath.Join(l.ImageBackOff(), r.uid+".json"): "[]", filepath.Join(l.ImageRecords(), "pulled", "sha256-0"): "{}",
		filepath.Join(l.ImageRecords(), "pulling", "sha256-0"): "{}",
		filepath.Join(l.RootDir, "runtime", "choice.json"):     `{"schemaVersion":1}`,
		filepath.Join(l.RootDir, "runtime", "loaded.json"):     "{}",
		l.Pod(r.uid).Devices():                                 "{}",
		l.Pod(r.uid).UserNS():                                  "{}",
		l.Pod(r.uid).StoppedMark():                             "x",
		l.Pod(r.uid).Restarted():                               "[]",
		l.Pod(r.uid).PendingRestarts():                         "{}",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			r.T.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("# podrun schema 1\n"+text), 0o600); err != nil {
			r.T.Fatal(err)
		}
		out = append(out, path)
	}
	return append(out, l.Pod(r.uid).Checkpoint(), l.Pod(r.uid).State())
}

// TestUnrelatedPodStarts damages all state files of a host, and those of a pod, in the same way. An
// unrelated pod must start, stop and be deleted, and the intact Service must keep its names.
func TestUnrelatedPodStarts(t *testing.T) {
	t.Parallel()
	for _, how := range damages() {
		t.Run(how, func(t *testing.T) {
			r := newStateRig(t)
			for _, path := range r.sharedFiles() {
				damage(t, path, how)
			}
			other := r.MustApply(rig.PodText("other", "Always", "containers: [{name: app, image: registry.example/app:1}]"), run.OutcomeCreated)
			if hosts, err := os.ReadFile(r.Layout().Pod(other.ID.UID).EtcHosts()); err != nil || !strings.Contains(string(hosts), "192.0.2.7\tgood") {
				t.Errorf("hosts file: %q, %v", hosts, err)
			}
			if _, err := lookup.Pods(t.Context(), r.Engine(), lookup.Selector{}); err != nil {
				t.Errorf("get: %v", err)
			}
			if _, err := servicesync.Sync(t.Context(), r.Engine()); err != nil && how != "unreadable" {
				t.Errorf("synchronize the Services: %v", err)
			}
			if _, _, err := servicesync.Apply(t.Context(), r.Engine(), map[string]*corev1.Service{"default/new": serviceOf("new")}, servicesync.Options{}); err != nil && how != "unreadable" {
				t.Errorf("apply another Service: %v", err)
			}
			if names, err := os.ReadFile(r.Layout().Services().Names()); how != "newer" && how != "unreadable" && (err != nil || !strings.HasPrefix(string(names), "# podrun schema 1\n")) {
				t.Errorf("the names were not derived again: %q, %v", names, err)
			}
			diagnosis, err := run.Doctor(t.Context(), r.Engine(), nil, run.DoctorOptions{AllowKubelet: true})
			at := slices.IndexFunc(diagnosis.Findings, func(f doctor.Finding) bool { return f.Check == "state-files" })
			if err != nil || at < 0 || diagnosis.Findings[at].Status != doctor.Warn {
				t.Errorf("doctor: %+v, %v", diagnosis.Findings, err)
			}
			goneByDelete(r.Host, "other")
		})
	}
}

// TestServeWithDamagedStateFiles is TestUnrelatedPodStarts for a supervisor.
func TestServeWithDamagedStateFiles(t *testing.T) {
	t.Parallel()
	for _, how := range damages() {
		t.Run(how, func(t *testing.T) {
			r := newStateRig(t)
			for _, path := range r.sharedFiles() {
				damage(t, path, how)
			}
			dir := rig.DirWith(t, "other.yaml", rig.PodText("other", "Always", "containers: [{name: app, image: registry.example/app:1}]"))
			get := rig.API(t, r.Host, serve.Options{Dirs: []string{dir}})
			rig.Eventually(t, "the pod runs", func() bool {
				views, err := lookup.Pods(t.Context(), r.Engine(), lookup.Selector{Names: []string{"other"}})
				return err == nil && len(views) == 1 && views[0].Object.Status.Phase == corev1.PodRunning
			})
			rig.Eventually(t, "the API names the files", func() bool {
				code, text := get("/readyz")
				return code == 503 && strings.Contains(text, r.Layout().Services().Service(identity.Pod{Namespace: "default", Name: "web"}))
			})
		})
	}
}

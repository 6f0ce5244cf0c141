package engine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/imagestore"
	"github.com/podrun/podrun/run/store"
)

// watchedPod is servedPod with a progress deadline of two minutes and the given fields of the container.
func watchedPod(name, container string) string {
	text := podText(name, "Always", "terminationGracePeriodSeconds: 5", "containers:", "- {name: "+name+", "+container+"}")
	return strings.Replace(text, "metadata: {", "metadata: {annotations: {podrun.dev/progress-deadline: 2m}, ", 1)
}

// update returns the record of a pod's update.
func (s *serving) update(name string) store.UpdateRecord {
	s.t.Helper()
	r, err := store.ReadUpdate(s.layout(), identity.Pod{Namespace: "default", Name: name})
	if err != nil {
		s.t.Fatal(err)
	}
	if r == nil {
		return store.UpdateRecord{}
	}
	return *r
}

// wantUpdate checks the state of a pod's update.
func (s *serving) wantUpdate(name string, want store.UpdateState) {
	s.t.Helper()
	if u := s.update(name); u.State != want {
		s.t.Errorf("the update of %s is %q (%s: %s), want %q; events %q; warnings %q", name, u.State, u.Reason, u.Message, want, s.reasons(), s.warnings)
	}
}

// slowRollback starts the pod, and updates it with a definition that is never ready. It returns while podrun restores the
// last good definition; the stop of a container then takes 30 s, until the caller calls clear.
func (s *serving) slowRollback() (clear func()) {
	s.t.Helper()
	s.goodPod()
	s.files.write(file("web"), watchedPod("web", "image: registry.example/app:2, "+neverReady))
	time.Sleep(time.Minute)
	clear = s.rt.Fault("StopContainer", critest.Fault{When: critest.Before, Delay: 30 * time.Second})
	for range 300 {
		if s.update("web").State == store.UpdateRollingBack {
			break
		}
		time.Sleep(time.Second)
	}
	s.wantUpdate("web", store.UpdateRollingBack)
	return clear
}

// rolledBack returns the number of rollbacks.
func (s *serving) rolledBack() (n int) {
	for _, r := range s.reasons() {
		if r == "RolledBack" {
			n++
		}
	}
	return n
}

// TestServeRollsBack covers the kinds of bad definitions: podrun restores the last good definition, and does not apply the
// bad one again until the file changes.
func TestServeRollsBack(t *testing.T) {
	for _, test := range []struct {
		name, bad, reason string
		within            time.Duration // from the change of the file
		script            func(*critest.Runtime)
	}{
		{name: "never ready", bad: "image: registry.example/app:2, readinessProbe: {exec: {command: [sh, -c, exit 1]}, periodSeconds: 5}", reason: "ProgressDeadlineExceeded", within: 2*time.Minute + 20*time.Second},
		{name: "crash loop", bad: "image: registry.example/app:2", reason: "CrashLoopBackOff", within: time.Minute + 30*time.Second,
			script: func(rt *critest.Runtime) { rt.Script("web", critest.Behavior{After: 3 * time.Second, ExitCode: 1}) }},
		{name: "failed hook", bad: "image: registry.example/app:2, lifecycle: {postStart: {exec: {command: [sh, -c, exit 3]}}}", reason: "PostStartHookError", within: 20 * time.Second},
		{name: "cannot be started", bad: "image: registry.example/app:2", reason: "RunContainerError", within: 20 * time.Second,
			script: func(rt *critest.Runtime) { rt.Script("web", critest.Behavior{StartErr: "no such file or directory"}) }},
		{name: "configuration", bad: "image: registry.example/app:2, env: [{name: A, valueFrom: {configMapKeyRef: {name: absent, key: k}}}]", reason: "", within: 20 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			serveTestWithoutGroups(t, func(t *testing.T, s *serving) {
				s.files.write(file("web"), watchedPod("web", "image: registry.example/app:1"))
				time.Sleep(time.Minute)
				s.wantUpdate("web", store.UpdateGood)
				good := s.running("web")
				if test.script != nil {
					test.script(s.rt)
				}
				s.files.write(file("web"), watchedPod("web", test.bad))
				if test.reason == "" {
					time.Sleep(time.Hour)
					s.same(good) // refused: nothing was replaced
					s.wantUpdate("web", store.UpdateGood)
					return
				}
				time.Sleep(5 * time.Second)
				if test.script != nil {
					s.rt.Script("web", critest.Behavior{Forever: true})
					test.script(s.rt)
				}
				time.Sleep(test.within)
				if test.script != nil {
					s.rt.Script("web")
				}
				time.Sleep(time.Minute)
				s.wantUpdate("web", store.UpdateRolledBack)
				if c := s.running("web"); c.Config.GetImage().GetUserSpecifiedImage() != "registry.example/app:1" {
					t.Errorf("image %s", c.Config.GetImage().GetUserSpecifiedImage())
				}
				if u := s.update("web"); u.Reason != test.reason || u.Rejected == nil {
					t.Errorf("record %+v", u)
				}
				if !s.emitted("RolledBack", test.reason) || s.rolledBack() != 1 {
					t.Errorf("events %q", s.reasons())
				}
				c := s.pending("web")
				if c == nil || c.Reason != "RolledBack" || !strings.Contains(c.Message, test.reason) {
					t.Errorf("condition %+v", c)
				}
				back := s.running("web")
				time.Sleep(time.Hour)
				s.same(back)
				s.restart()
				time.Sleep(time.Hour)
				s.same(back)
				if c := s.pending("web"); c == nil || c.Reason != "RolledBack" {
					t.Errorf("condition after a restart %+v", c)
				}
				// A correct file.
				s.files.write(file("web"), watchedPod("web", "image: registry.example/app:2, args: [correct]"))
				time.Sleep(time.Minute)
				s.wantUpdate("web", store.UpdateGood)
				if c := s.pending("web"); c != nil {
					t.Errorf("condition after the correct file %+v", c)
				}
				if s.rolledBack() != 1 || slices.Contains(s.reasons(), "ProgressDeadlineExceeded") {
					t.Errorf("events %q", s.reasons())
				}
			})
		})
	}
}

const neverReady = "readinessProbe: {exec: {command: [sh, -c, exit 1]}, periodSeconds: 5}"

// goodPod starts the pod web with the good definition.
func (s *serving) goodPod() critest.Container {
	s.t.Helper()
	s.files.write(file("web"), watchedPod("web", "image: registry.example/app:1"))
	time.Sleep(time.Minute)
	s.wantUpdate("web", store.UpdateGood)
	return s.running("web")
}

// wantImage checks the image, as written, of the running container web.
func (s *serving) wantImage(want string) {
	s.t.Helper()
	if c := s.running("web"); c.Config.GetImage().GetUserSpecifiedImage() != "registry.example/"+want {
		s.t.Errorf("image %s, want %s; events %q", c.Config.GetImage().GetUserSpecifiedImage(), want, s.reasons())
	}
}

// TestServeRollsBackOftenBad makes more bad updates than the history has revisions.
func TestServeRollsBackOftenBad(t *testing.T) {
	t.Parallel()
	serveTestWithoutGroups(t, func(t *testing.T, s *serving) {
		s.goodPod()
		for i := range 8 {
			s.files.write(file("web"), watchedPod("web", "image: registry.example/app:2, args: ["+strings.Repeat("x", i+1)+"], "+neverReady))
			time.Sleep(4 * time.Minute)
			s.wantUpdate("web", store.UpdateRolledBack)
			s.wantImage("app:1")
		}
		if n := s.rolledBack(); n != 8 {
			t.Errorf("%d rollbacks", n)
		}
	})
}

// TestServeRollsBackTwoUpdates makes a bad update, and another one before the first one is judged.
func TestServeRollsBackTwoUpdates(t *testing.T) {
	t.Parallel()
	serveTestWithoutGroups(t, func(t *testing.T, s *serving) {
		s.goodPod()
		s.files.write(file("web"), watchedPod("web", "image: registry.example/app:2, "+neverReady))
		time.Sleep(time.Minute)
		s.files.write(file("web"), watchedPod("web", "image: registry.example/app:2, args: [b], "+neverReady))
		time.Sleep(90 * time.Second)
		s.wantUpdate("web", store.UpdateProgressing)
		time.Sleep(2 * time.Minute)
		s.wantUpdate("web", store.UpdateRolledBack)
		s.wantImage("app:1")
		// The file returns to the good definition, and the pod is not restarted.
		back := s.running("web")
		s.files.write(file("web"), watchedPod("web", "image: registry.example/app:1"))
		time.Sleep(time.Minute)
		s.same(back)
		if c := s.pending("web"); c != nil {
			t.Errorf("condition %+v", c)
		}
	})
}

// TestServeChangesDuringRollback changes the file while podrun restores the last good definition.
func TestServeChangesDuringRollback(t *testing.T) {
	t.Parallel()
	serveTestWithoutGroups(t, func(t *testing.T, s *serving) {
		clear := s.slowRollback()
		s.files.write(file("web"), watchedPod("web", "image: registry.example/app:1, args: [new]"))
		time.Sleep(10 * time.Second)
		clear()
		time.Sleep(2 * time.Minute)
		s.wantUpdate("web", store.UpdateGood)
		if c := s.running("web"); !slices.Contains(c.Config.GetArgs(), "new") {
			t.Errorf("arguments %q", c.Config.GetArgs())
		}
	})
}

// TestServeRollsBackConfigMap changes only a ConfigMap.
func TestServeRollsBackConfigMap(t *testing.T) {
	for _, restarts := range []string{"true", "false"} {
		t.Run("restart-on-change "+restarts, func(t *testing.T) {
			t.Parallel()
			serveTestWithoutGroups(t, func(t *testing.T, s *serving) {
				text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf}\ndata: {ok: \"0\"}\n---\n" +
					podText("web", "Always", "terminationGracePeriodSeconds: 5", "containers:",
						"- {name: web, image: registry.example/app:1, volumeMounts: [{name: conf, mountPath: /conf}], readinessProbe: {exec: {command: [cat, /conf/ok]}, periodSeconds: 5, failureThreshold: 1}}",
						"volumes:", "- {name: conf, configMap: {name: conf}}")
				text = strings.Replace(text, "metadata: {name: web", "metadata: {annotations: {podrun.dev/progress-deadline: 2m, podrun.dev/restart-on-change: \""+restarts+"\"}, name: web", 1)
				var conf atomic.Value // the file on this host
				s.rt.ScriptExec("web", func([]string) *critest.Exec {
					path, _ := conf.Load().(string)
					if data, err := os.ReadFile(path); path != "" && (err != nil || string(data) != "0") {
						return &critest.Exec{ExitCode: 1}
					}
					return &critest.Exec{}
				})
				s.files.write(file("web"), text)
				time.Sleep(5 * time.Second)
				for _, m := range s.running("web").Config.GetMounts() {
					if m.GetContainerPath() == "/conf" {
						conf.Store(filepath.Join(m.GetHostPath(), "ok"))
					}
				}
				time.Sleep(time.Minute)
				s.wantUpdate("web", store.UpdateGood)
				s.files.write(file("web"), strings.Replace(text, `ok: "0"`, `ok: "1"`, 1))
				time.Sleep(30 * time.Second)
				s.wantUpdate("web", store.UpdateProgressing)
				if got := s.volumeFile(s.running("web"), "/conf", "ok"); got != "1" {
					t.Errorf("the file is %q", got)
				}
				time.Sleep(3 * time.Minute)
				s.wantUpdate("web", store.UpdateRolledBack)
				if got := s.volumeFile(s.running("web"), "/conf", "ok"); got != "0" {
					t.Errorf("the file is %q", got)
				}
				time.Sleep(time.Hour)
				if s.rolledBack() != 1 {
					t.Errorf("events %q", s.reasons())
				}
			})
		})
	}
}

// TestServeRollsBackByImageID moves the tag of the image, with the pull policy Always, and then makes the registry
// unreachable. The restored pod uses the image that was good.
func TestServeRollsBackByImageID(t *testing.T) {
	t.Parallel()
	serveTestWithoutGroups(t, func(t *testing.T, s *serving) {
		const always = "image: registry.example/app:1, imagePullPolicy: Always"
		s.files.write(file("web"), watchedPod("web", always))
		time.Sleep(time.Minute)
		s.wantUpdate("web", store.UpdateGood)
		good := s.running("web").Config.GetImage().GetImage()
		s.rt.AddRemote(critest.Image{ID: "sha256:" + strings.Repeat("b", 64), Name: "registry.example/app:1"})
		s.files.write(file("web"), watchedPod("web", always+", "+neverReady))
		time.Sleep(time.Minute)
		if bad := s.running("web").Config.GetImage().GetImage(); bad == good {
			t.Fatalf("the image %s did not change", bad)
		}
		// No container uses the good image now.
		report, err := imagestore.Prune(t.Context(), s.engine(), imagestore.PruneInput{All: true})
		s.must(nil, err)
		if len(report) == 0 {
			t.Error("image prune removed nothing")
		}
		if report, err := imagestore.Remove(t.Context(), s.engine(), imagestore.RemoveInput{Images: []string{good}}); err == nil && report.Err() == nil {
			t.Error("image rm removed the last good image")
		}
		clear := s.rt.Fault("PullImage", critest.Fault{When: critest.Before})
		defer clear()
		time.Sleep(3 * time.Minute)
		s.wantUpdate("web", store.UpdateRolledBack)
		if is := s.running("web").Config.GetImage().GetImage(); is != good {
			t.Errorf("image %s, want %s", is, good)
		}
		// A container that restarts uses it, too.
		s.exit("web", 1)
		time.Sleep(time.Minute)
		if is := s.running("web").Config.GetImage().GetImage(); is != good {
			t.Errorf("image after a restart %s, want %s", is, good)
		}
	})
}

// rollBackPod makes a bad update of the pod web, and waits until podrun has rolled it back.
func (s *serving) rollBackPod() critest.Container {
	s.t.Helper()
	s.goodPod()
	s.files.write(file("web"), watchedPod("web", "image: registry.example/app:2, "+neverReady))
	time.Sleep(4 * time.Minute)
	s.wantUpdate("web", store.UpdateRolledBack)
	s.wantImage("app:1")
	return s.running("web")
}

// TestServeRolledBackAndCommands runs commands on a pod that was rolled back.
func TestServeRolledBackAndCommands(t *testing.T) {
	t.Parallel()
	serveTestWithoutGroups(t, func(t *testing.T, s *serving) {
		s.rollBackPod()
		rejected := func() {
			t.Helper()
			if c := s.pending("web"); c == nil || c.Reason != "RolledBack" {
				t.Errorf("condition %+v", c)
			}
		}
		s.stopAndStart()
		time.Sleep(time.Minute)
		s.wantImage("app:1")
		s.wantUpdate("web", store.UpdateRolledBack)
		rejected()
		results, err := run.StartPods(t.Context(), s.engine(), s.known(), run.ApplyOptions{AllowKubelet: true, Force: true})
		s.must(nil, err)
		s.must(nil, results[0].Err)
		time.Sleep(time.Minute)
		s.wantImage("app:1")
		s.wantUpdate("web", store.UpdateRolledBack)
		rejected()
		// The definition of a command is watched. That of the source stays rejected.
		results, err = run.ChangePods(t.Context(), s.engine(), s.known(), setEnv, run.ApplyOptions{AllowKubelet: true})
		s.must(nil, err)
		s.must(nil, results[0].Err)
		time.Sleep(time.Minute)
		s.wantUpdate("web", store.UpdateGood)
		rejected()
		// A bad definition of a command is rolled back, too, to the one of the last command.
		bad := func(id identity.Pod, c *manifest.Checkpoint) (*manifest.Objects, error) {
			changed := *c
			changed.Pod = c.Pod.DeepCopy()
			changed.Pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", "exit 1"}}}}
			return changed.Objects(), nil
		}
		if _, err = run.ChangePods(t.Context(), s.engine(), s.known(), bad, run.ApplyOptions{AllowKubelet: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		s.wantUpdate("web", store.UpdateRolledBack)
		if envs := s.running("web").Config.GetEnvs(); len(envs) == 0 || envs[0].GetKey() != "VERSION" {
			t.Errorf("variables %v", envs)
		}
		rejected()
		// A deleted pod starts from its file, without an earlier definition.
		s.delete(run.DeleteOptions{})
		time.Sleep(10 * time.Minute)
		s.wantImage("app:2")
		s.wantUpdate("web", store.UpdateExceeded)
		if s.rolledBack() != 2 || !slices.Contains(s.reasons(), "ProgressDeadlineExceeded") {
			t.Errorf("events %q", s.reasons())
		}
		// It becomes ready after all.
		s.rt.ScriptExec("web", func([]string) *critest.Exec { return &critest.Exec{} })
		time.Sleep(time.Minute)
		s.wantUpdate("web", store.UpdateGood)
	})
}

// TestServeDeleteDuringRollback deletes the pod while podrun restores its last good definition.
func TestServeDeleteDuringRollback(t *testing.T) {
	t.Parallel()
	serveTestWithoutGroups(t, func(t *testing.T, s *serving) {
		clear := s.slowRollback()
		s.files.remove(file("web"))
		time.Sleep(10 * time.Second)
		clear()
		time.Sleep(2 * time.Minute)
		s.absent("web")
		if left, _ := filepath.Glob(filepath.Join(s.layout().RootDir, "updates", "*")); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// TestServeRollsBackAfterReboots reboots the host during an update.
func TestServeRollsBackAfterRestarts(t *testing.T) {
	t.Parallel()
	serveTestWithoutGroups(t, func(t *testing.T, s *serving) {
		s.goodPod()
		s.files.write(file("web"), watchedPod("web", "image: registry.example/app:2, "+neverReady))
		time.Sleep(70 * time.Second)
		for range 10 {
			s.restart()
			time.Sleep(20 * time.Second)
		}
		// The time is kept, except for the last part of each process.
		time.Sleep(30 * time.Second)
		s.wantUpdate("web", store.UpdateRolledBack)
		s.wantImage("app:1")
	})
}

// TestServeWithoutSetting restarts serve without the setting, while an update is watched.
func TestServeWithoutSetting(t *testing.T) {
	t.Parallel()
	serveTestWithoutGroups(t, func(t *testing.T, s *serving) {
		s.end()
		s.settings.ProgressDeadline = 2 * time.Minute
		s.start()
		plain := func(container string) string {
			return podText("web", "Always", "terminationGracePeriodSeconds: 5", "containers:", "- {name: web, "+container+"}")
		}
		s.files.write(file("web"), plain("image: registry.example/app:1"))
		time.Sleep(time.Minute)
		s.wantUpdate("web", store.UpdateGood)
		s.files.write(file("web"), plain("image: registry.example/app:2, "+neverReady))
		time.Sleep(4 * time.Minute)
		s.wantUpdate("web", store.UpdateRolledBack)
		s.end()
		s.settings.ProgressDeadline = 0
		s.start()
		time.Sleep(time.Hour)
		s.wantImage("app:1")
		if c := s.pending("web"); c == nil || c.Reason != "RolledBack" {
			t.Errorf("condition %+v", c)
		}
		// The next update is not watched.
		s.files.write(file("web"), plain("image: registry.example/app:2, args: [x], "+neverReady))
		time.Sleep(time.Hour)
		s.wantImage("app:2")
		s.wantUpdate("web", store.UpdateNone)
	})
}

// TestServeSettingForRunningPods begins to watch updates of pods that run already: the definition in effect is the last good
// one if the pod is ready.
func TestServeSettingForRunningPods(t *testing.T) {
	t.Parallel()
	serveTestWithoutGroups(t, func(t *testing.T, s *serving) {
		s.files.write(file("web"), servedPod("web"))
		time.Sleep(time.Hour)
		s.wantUpdate("web", store.UpdateNone)
		s.files.write(file("web"), watchedPod("web", "image: registry.example/app:2, "+neverReady))
		time.Sleep(4 * time.Minute)
		s.wantUpdate("web", store.UpdateRolledBack)
		s.wantImage("app:1")
	})
}

// TestServeRollsBackSecretsInMemory keeps the Secrets in memory, and loses them.
func TestServeRollsBackSecretsInMemory(t *testing.T) {
	t.Parallel()
	serveTestWithoutGroups(t, func(t *testing.T, s *serving) {
		s.end()
		s.keepSecretsInMemory()
		s.start()
		text := func(image, value string) string {
			return strings.Replace(podText("web", "Always", "terminationGracePeriodSeconds: 5", "containers:",
				"- {name: web, image: registry.example/"+image+", env: [{name: K, valueFrom: {secretKeyRef: {name: s, key: k}}}]}"),
				"metadata: {", "metadata: {annotations: {podrun.dev/progress-deadline: 2m}, ", 1) +
				"\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {k: " + value + "}\n"
		}
		value := func() string {
			envs := s.running("web").Config.GetEnvs()
			if len(envs) == 0 {
				return ""
			}
			return string(envs[0].GetValue())
		}
		s.files.write(file("web"), text("app:1", "hunter2"))
		time.Sleep(time.Minute)
		s.wantUpdate("web", store.UpdateGood)
		bad := strings.Replace(text("app:2", "hunter3"), "app:2,", "app:2, "+neverReady+",", 1)
		s.files.write(file("web"), bad)
		time.Sleep(4 * time.Minute)
		s.wantUpdate("web", store.UpdateRolledBack)
		s.wantImage("app:1")
		if value() != "hunter2" {
			t.Errorf("the Secret is %q", value())
		}
		for _, dir := range []string{"pods", "history", "updates"} {
			if found := grep(t, filepath.Join(s.layout().RootDir, dir), "aHVudGVy"); found != "" {
				t.Errorf("%s contains a Secret", found)
			}
		}
		// After a reboot, the last good definition gets the Secret of the source, which has the same name.
		s.end()
		s.rt.Restart()
		s.must(nil, os.RemoveAll(s.layout().SecretGoods()))
		s.loseSecrets()
		s.start()
		time.Sleep(time.Hour)
		s.wantImage("app:1")
		s.wantUpdate("web", store.UpdateRolledBack)
		if value() != "hunter3" {
			t.Errorf("the Secret after the reboot is %q", value())
		}
		if c := s.pending("web"); c == nil || c.Reason != "RolledBack" {
			t.Errorf("condition %+v", c)
		}
		s.files.remove(file("web"))
		time.Sleep(time.Minute)
		s.nothingInMemory()
	})
}

// grep returns the first file below a directory that contains a text; "" if there is none.
func grep(t *testing.T, dir, text string) (found string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), text) {
			found = path
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestServeRollsBackInterruptedUpdate stops serve while it stops the old pod of an update. The pod keeps its UID, and so its
// last good definition.
func TestServeRollsBackInterruptedUpdate(t *testing.T) {
	t.Parallel()
	serveTestWithoutGroups(t, func(t *testing.T, s *serving) {
		s.goodPod()
		uid := s.got("web").UID
		s.files.write(file("web"), watchedPod("web", "image: registry.example/app:2, lifecycle: {postStart: {exec: {command: [sh, -c, exit 3]}}}"))
		clear := s.rt.Fault("StopContainer", critest.Fault{When: critest.Before, Delay: 30 * time.Second})
		time.Sleep(3 * time.Second)
		s.wantUpdate("web", store.UpdateProgressing)
		if owner, err := store.ReadOwner(s.layout(), identity.Pod{Namespace: "default", Name: "web"}); err != nil || !owner.Recreate {
			t.Errorf("the pod is not being replaced: %+v, %v", owner, err)
		}
		s.restart()
		clear()
		time.Sleep(3 * time.Minute)
		s.wantUpdate("web", store.UpdateRolledBack)
		s.wantImage("app:1")
		if is := s.got("web").UID; is != uid {
			t.Errorf("the UID is %s, was %s", is, uid)
		}
	})
}

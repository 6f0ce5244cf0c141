package update

import (
	"errors"
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
	"github.com/podrun/podrun/test/engine/rig"
)

// watchedPod is rig.ServedPod with a progress deadline of two minutes and the given fields of the container.
func watchedPod(name, container string) string {
	text := rig.PodText(name, "Always", "terminationGracePeriodSeconds: 5", "containers:", "- {name: "+name+", "+container+"}")
	return strings.Replace(text, "metadata: {", "metadata: {annotations: {podrun.dev/progress-deadline: 2m}, ", 1)
}

// update returns the record of a pod's update.
func update(s *rig.Supervised, name string) store.UpdateRecord {
	s.T.Helper()
	r, err := store.ReadUpdate(s.Layout(), identity.Pod{Namespace: "default", Name: name})
	if err != nil {
		s.T.Fatal(err)
	}
	if r == nil {
		return store.UpdateRecord{}
	}
	return *r
}

// wantUpdate checks the state of a pod's update.
func wantUpdate(s *rig.Supervised, name string, want store.UpdateState) {
	s.T.Helper()
	if u := update(s, name); u.State != want {
		s.T.Errorf("the update of %s is %q (%s: %s), want %q; events %q; warnings %q", name, u.State, u.Reason, u.Message, want, s.Reasons(), s.Warnings())
	}
}

// slowRollback starts the pod, and updates it with a definition that is never ready. It returns while podrun restores the
// last good definition; the stop of a container then takes 30 s, until the caller calls clear.
func slowRollback(s *rig.Supervised) (clear func()) {
	s.T.Helper()
	goodPod(s)
	s.Files.Write(rig.File("web"), watchedPod("web", "image: registry.example/app:2, "+neverReady))
	time.Sleep(time.Minute)
	clear = s.Runtime.Fault("StopContainer", critest.Fault{When: critest.Before, Delay: 30 * time.Second})
	for range 300 {
		if update(s, "web").State == store.UpdateRollingBack {
			break
		}
		time.Sleep(time.Second)
	}
	wantUpdate(s, "web", store.UpdateRollingBack)
	return clear
}

// rolledBack returns the number of rollbacks.
func rolledBack(s *rig.Supervised) (n int) {
	for _, r := range s.Reasons() {
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
		{name: "never alive", bad: "image: registry.example/app:2, livenessProbe: {exec: {command: [sh, -c, exit 1]}, periodSeconds: 5}", reason: "CrashLoopBackOff", within: 2*time.Minute + 20*time.Second},
		{name: "crash loop", bad: "image: registry.example/app:2", reason: "CrashLoopBackOff", within: time.Minute + 30*time.Second,
			script: func(rt *critest.Runtime) { rt.Script("web", critest.Behavior{After: 3 * time.Second, ExitCode: 1}) }},
		{name: "failed hook", bad: "image: registry.example/app:2, lifecycle: {postStart: {exec: {command: [sh, -c, exit 3]}}}", reason: "PostStartHookError", within: 20 * time.Second},
		{name: "cannot be started", bad: "image: registry.example/app:2", reason: "RunContainerError", within: 20 * time.Second,
			script: func(rt *critest.Runtime) { rt.Script("web", critest.Behavior{StartErr: "no such file or directory"}) }},
		{name: "configuration", bad: "image: registry.example/app:2, env: [{name: A, valueFrom: {configMapKeyRef: {name: absent, key: k}}}]", reason: "", within: 20 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			rig.ServeWithoutCgroups(t, func(t *testing.T, s *rig.Supervised) {
				s.Files.Write(rig.File("web"), watchedPod("web", "image: registry.example/app:1"))
				time.Sleep(time.Minute)
				wantUpdate(s, "web", store.UpdateGood)
				good := s.Running("web")
				if test.script != nil {
					test.script(s.Runtime)
				}
				s.Files.Write(rig.File("web"), watchedPod("web", test.bad))
				if test.reason == "" {
					time.Sleep(time.Hour)
					s.Same(good) // refused: nothing was replaced
					wantUpdate(s, "web", store.UpdateGood)
					return
				}
				time.Sleep(5 * time.Second)
				if test.script != nil {
					s.Runtime.Script("web", critest.Behavior{Forever: true})
					test.script(s.Runtime)
				}
				time.Sleep(test.within)
				if test.script != nil {
					s.Runtime.Script("web")
				}
				time.Sleep(time.Minute)
				wantUpdate(s, "web", store.UpdateRolledBack)
				if c := s.Running("web"); c.Config.GetImage().GetUserSpecifiedImage() != "registry.example/app:1" {
					t.Errorf("image %s", c.Config.GetImage().GetUserSpecifiedImage())
				}
				if u := update(s, "web"); u.Reason != test.reason || u.Rejected == nil {
					t.Errorf("record %+v", u)
				}
				if !s.Emitted("RolledBack", test.reason) || rolledBack(s) != 1 {
					t.Errorf("events %q", s.Reasons())
				}
				c := pending(s, "web")
				if c == nil || c.Reason != "RolledBack" || !strings.Contains(c.Message, test.reason) {
					t.Errorf("condition %+v", c)
				}
				back := s.Running("web")
				time.Sleep(time.Hour)
				s.Same(back)
				s.Restart()
				time.Sleep(time.Hour)
				s.Same(back)
				if c := pending(s, "web"); c == nil || c.Reason != "RolledBack" {
					t.Errorf("condition after a restart %+v", c)
				}
				// A correct file.
				s.Files.Write(rig.File("web"), watchedPod("web", "image: registry.example/app:2, args: [correct]"))
				time.Sleep(time.Minute)
				wantUpdate(s, "web", store.UpdateGood)
				if c := pending(s, "web"); c != nil {
					t.Errorf("condition after the correct file %+v", c)
				}
				if rolledBack(s) != 1 || slices.Contains(s.Reasons(), "ProgressDeadlineExceeded") {
					t.Errorf("events %q", s.Reasons())
				}
			})
		})
	}
}

// TestServeAwaitsTheFirstLivenessProbe: a definition is not good before its liveness probe has succeeded. The time until then
// does not count.
func TestServeAwaitsTheFirstLivenessProbe(t *testing.T) {
	t.Parallel()
	rig.ServeWithoutCgroups(t, func(_ *testing.T, s *rig.Supervised) {
		goodPod(s)
		s.Files.Write(rig.File("web"), watchedPod("web", "image: registry.example/app:2, livenessProbe: {exec: {command: [sh, -c, exit 0]}, initialDelaySeconds: 300}"))
		time.Sleep(4 * time.Minute)
		wantUpdate(s, "web", store.UpdateProgressing)
		time.Sleep(2 * time.Minute)
		wantUpdate(s, "web", store.UpdateGood)
	})
}

const neverReady = "readinessProbe: {exec: {command: [sh, -c, exit 1]}, periodSeconds: 5}"

// goodPod starts the pod web with the good definition.
func goodPod(s *rig.Supervised) critest.Container {
	s.T.Helper()
	s.Files.Write(rig.File("web"), watchedPod("web", "image: registry.example/app:1"))
	time.Sleep(time.Minute)
	wantUpdate(s, "web", store.UpdateGood)
	return s.Running("web")
}

// wantImage checks the image, as written, of the running container web.
func wantImage(s *rig.Supervised, want string) {
	s.T.Helper()
	if c := s.Running("web"); c.Config.GetImage().GetUserSpecifiedImage() != "registry.example/"+want {
		s.T.Errorf("image %s, want %s; events %q", c.Config.GetImage().GetUserSpecifiedImage(), want, s.Reasons())
	}
}

// TestServeRollsBackOftenBad makes more bad updates than the history has revisions.
func TestServeRollsBackOftenBad(t *testing.T) {
	t.Parallel()
	rig.ServeWithoutCgroups(t, func(t *testing.T, s *rig.Supervised) {
		goodPod(s)
		for i := range 8 {
			s.Files.Write(rig.File("web"), watchedPod("web", "image: registry.example/app:2, args: ["+strings.Repeat("x", i+1)+"], "+neverReady))
			time.Sleep(4 * time.Minute)
			wantUpdate(s, "web", store.UpdateRolledBack)
			wantImage(s, "app:1")
		}
		if n := rolledBack(s); n != 8 {
			t.Errorf("%d rollbacks", n)
		}
	})
}

// TestServeRollsBackTwoUpdates makes a bad update, and another one before the first one is judged.
func TestServeRollsBackTwoUpdates(t *testing.T) {
	t.Parallel()
	rig.ServeWithoutCgroups(t, func(t *testing.T, s *rig.Supervised) {
		goodPod(s)
		s.Files.Write(rig.File("web"), watchedPod("web", "image: registry.example/app:2, "+neverReady))
		time.Sleep(time.Minute)
		s.Files.Write(rig.File("web"), watchedPod("web", "image: registry.example/app:2, args: [b], "+neverReady))
		time.Sleep(90 * time.Second)
		wantUpdate(s, "web", store.UpdateProgressing)
		time.Sleep(2 * time.Minute)
		wantUpdate(s, "web", store.UpdateRolledBack)
		wantImage(s, "app:1")
		// The file returns to the good definition, and the pod is not restarted.
		back := s.Running("web")
		s.Files.Write(rig.File("web"), watchedPod("web", "image: registry.example/app:1"))
		time.Sleep(time.Minute)
		s.Same(back)
		if c := pending(s, "web"); c != nil {
			t.Errorf("condition %+v", c)
		}
	})
}

// TestServeChangesDuringRollback changes the file while podrun restores the last good definition.
func TestServeChangesDuringRollback(t *testing.T) {
	t.Parallel()
	rig.ServeWithoutCgroups(t, func(t *testing.T, s *rig.Supervised) {
		clear := slowRollback(s)
		s.Files.Write(rig.File("web"), watchedPod("web", "image: registry.example/app:1, args: [new]"))
		time.Sleep(10 * time.Second)
		clear()
		time.Sleep(2 * time.Minute)
		wantUpdate(s, "web", store.UpdateGood)
		if c := s.Running("web"); !slices.Contains(c.Config.GetArgs(), "new") {
			t.Errorf("arguments %q", c.Config.GetArgs())
		}
	})
}

// TestServeRollsBackConfigMap changes only a ConfigMap.
func TestServeRollsBackConfigMap(t *testing.T) {
	for _, restarts := range []string{"true", "false"} {
		t.Run("restart-on-change "+restarts, func(t *testing.T) {
			t.Parallel()
			rig.ServeWithoutCgroups(t, func(t *testing.T, s *rig.Supervised) {
				text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf}\ndata: {ok: \"0\"}\n---\n" +
					rig.PodText("web", "Always", "terminationGracePeriodSeconds: 5", "containers:",
						"- {name: web, image: registry.example/app:1, volumeMounts: [{name: conf, mountPath: /conf}], readinessProbe: {exec: {command: [cat, /conf/ok]}, periodSeconds: 5, failureThreshold: 1}}",
						"volumes:", "- {name: conf, configMap: {name: conf}}")
				text = strings.Replace(text, "metadata: {name: web", "metadata: {annotations: {podrun.dev/progress-deadline: 2m, podrun.dev/restart-on-change: \""+restarts+"\"}, name: web", 1)
				var conf atomic.Value // the file on this host
				s.Runtime.ScriptExec("web", func([]string) *critest.Exec {
					path, _ := conf.Load().(string)
					if data, err := os.ReadFile(path); path != "" && (err != nil || string(data) != "0") {
						return &critest.Exec{ExitCode: 1}
					}
					return &critest.Exec{}
				})
				s.Files.Write(rig.File("web"), text)
				time.Sleep(5 * time.Second)
				for _, m := range s.Running("web").Config.GetMounts() {
					if m.GetContainerPath() == "/conf" {
						conf.Store(filepath.Join(m.GetHostPath(), "ok"))
					}
				}
				time.Sleep(time.Minute)
				wantUpdate(s, "web", store.UpdateGood)
				s.Files.Write(rig.File("web"), strings.Replace(text, `ok: "0"`, `ok: "1"`, 1))
				time.Sleep(30 * time.Second)
				wantUpdate(s, "web", store.UpdateProgressing)
				if got := s.VolumeFile(s.Running("web"), "/conf", "ok"); got != "1" {
					t.Errorf("the file is %q", got)
				}
				time.Sleep(3 * time.Minute)
				wantUpdate(s, "web", store.UpdateRolledBack)
				if got := s.VolumeFile(s.Running("web"), "/conf", "ok"); got != "0" {
					t.Errorf("the file is %q", got)
				}
				time.Sleep(time.Hour)
				if rolledBack(s) != 1 {
					t.Errorf("events %q", s.Reasons())
				}
			})
		})
	}
}

// TestServeRollsBackByImageID moves the tag of the image, with the pull policy Always, and then makes the registry
// unreachable. The restored pod uses the image that was good.
func TestServeRollsBackByImageID(t *testing.T) {
	t.Parallel()
	rig.ServeWithoutCgroups(t, func(t *testing.T, s *rig.Supervised) {
		const always = "image: registry.example/app:1, imagePullPolicy: Always"
		s.Files.Write(rig.File("web"), watchedPod("web", always))
		time.Sleep(time.Minute)
		wantUpdate(s, "web", store.UpdateGood)
		good := s.Running("web").Config.GetImage().GetImage()
		s.Runtime.AddRemote(critest.Image{ID: "sha256:" + strings.Repeat("b", 64), Name: "registry.example/app:1"})
		s.Files.Write(rig.File("web"), watchedPod("web", always+", "+neverReady))
		time.Sleep(time.Minute)
		if bad := s.Running("web").Config.GetImage().GetImage(); bad == good {
			t.Fatalf("the image %s did not change", bad)
		}
		// No container uses the good image now.
		report, err := imagestore.Prune(t.Context(), s.Engine(), imagestore.PruneInput{All: true})
		s.Must(nil, err)
		if len(report) == 0 {
			t.Error("image prune removed nothing")
		}
		report, err = imagestore.Remove(t.Context(), s.Engine(), imagestore.RemoveInput{Images: []string{good}})
		if err = errors.Join(err, report.Err()); err == nil || !strings.Contains(err.Error(), "is the image of the last good definition of pod default/web") {
			t.Errorf("image rm of the last good image: %v", err)
		}
		clear := s.Runtime.Fault("PullImage", critest.Fault{When: critest.Before})
		defer clear()
		time.Sleep(3 * time.Minute)
		wantUpdate(s, "web", store.UpdateRolledBack)
		if is := s.Running("web").Config.GetImage().GetImage(); is != good {
			t.Errorf("image %s, want %s", is, good)
		}
		// A container that restarts uses it, too.
		s.Exit("web", 1)
		time.Sleep(time.Minute)
		if is := s.Running("web").Config.GetImage().GetImage(); is != good {
			t.Errorf("image after a restart %s, want %s", is, good)
		}
	})
}

// rollBackPod makes a bad update of the pod web, and waits until podrun has rolled it back.
func rollBackPod(s *rig.Supervised) critest.Container {
	s.T.Helper()
	goodPod(s)
	s.Files.Write(rig.File("web"), watchedPod("web", "image: registry.example/app:2, "+neverReady))
	time.Sleep(4 * time.Minute)
	wantUpdate(s, "web", store.UpdateRolledBack)
	wantImage(s, "app:1")
	return s.Running("web")
}

// TestServeRolledBackAndCommands runs commands on a pod that was rolled back.
func TestServeRolledBackAndCommands(t *testing.T) {
	t.Parallel()
	rig.ServeWithoutCgroups(t, func(t *testing.T, s *rig.Supervised) {
		rollBackPod(s)
		rejected := func() {
			t.Helper()
			if c := pending(s, "web"); c == nil || c.Reason != "RolledBack" {
				t.Errorf("condition %+v", c)
			}
		}
		s.StopAndStart()
		time.Sleep(time.Minute)
		wantImage(s, "app:1")
		wantUpdate(s, "web", store.UpdateRolledBack)
		rejected()
		results, err := run.StartPods(t.Context(), s.Engine(), s.Known(), run.ApplyOptions{AllowKubelet: true, Force: true})
		s.Must(nil, err)
		s.Must(nil, results[0].Err)
		time.Sleep(time.Minute)
		wantImage(s, "app:1")
		wantUpdate(s, "web", store.UpdateRolledBack)
		rejected()
		// The definition of a command is watched. That of the source stays rejected.
		results, err = run.ChangePods(t.Context(), s.Engine(), s.Known(), setEnv, run.ApplyOptions{AllowKubelet: true})
		s.Must(nil, err)
		s.Must(nil, results[0].Err)
		time.Sleep(time.Minute)
		wantUpdate(s, "web", store.UpdateGood)
		rejected()
		// A bad definition of a command is rolled back, too, to the one of the last command.
		bad := func(id identity.Pod, c *manifest.Checkpoint) (*manifest.Objects, error) {
			changed := *c
			changed.Pod = c.Pod.DeepCopy()
			changed.Pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", "exit 1"}}}}
			return changed.Objects(), nil
		}
		if _, err = run.ChangePods(t.Context(), s.Engine(), s.Known(), bad, run.ApplyOptions{AllowKubelet: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		wantUpdate(s, "web", store.UpdateRolledBack)
		if envs := s.Running("web").Config.GetEnvs(); len(envs) == 0 || envs[0].GetKey() != "VERSION" {
			t.Errorf("variables %v", envs)
		}
		rejected()
		// A deleted pod starts from its file, without an earlier definition.
		s.Delete(run.DeleteOptions{})
		time.Sleep(10 * time.Minute)
		wantImage(s, "app:2")
		wantUpdate(s, "web", store.UpdateExceeded)
		if rolledBack(s) != 2 || !slices.Contains(s.Reasons(), "ProgressDeadlineExceeded") {
			t.Errorf("events %q", s.Reasons())
		}
		// It becomes ready after all.
		s.Runtime.ScriptExec("web", func([]string) *critest.Exec { return &critest.Exec{} })
		time.Sleep(time.Minute)
		wantUpdate(s, "web", store.UpdateGood)
	})
}

// TestServeDeleteDuringRollback deletes the pod while podrun restores its last good definition.
func TestServeDeleteDuringRollback(t *testing.T) {
	t.Parallel()
	rig.ServeWithoutCgroups(t, func(t *testing.T, s *rig.Supervised) {
		clear := slowRollback(s)
		s.Files.Remove(rig.File("web"))
		time.Sleep(10 * time.Second)
		clear()
		time.Sleep(2 * time.Minute)
		s.Absent("web")
		if left, _ := filepath.Glob(filepath.Join(s.Layout().RootDir, "updates", "*")); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// TestServeRollsBackAfterReboots reboots the host during an update.
func TestServeRollsBackAfterRestarts(t *testing.T) {
	t.Parallel()
	rig.ServeWithoutCgroups(t, func(t *testing.T, s *rig.Supervised) {
		goodPod(s)
		s.Files.Write(rig.File("web"), watchedPod("web", "image: registry.example/app:2, "+neverReady))
		time.Sleep(70 * time.Second)
		for range 10 {
			s.Restart()
			time.Sleep(20 * time.Second)
		}
		// The time is kept, except for the last part of each process.
		time.Sleep(30 * time.Second)
		wantUpdate(s, "web", store.UpdateRolledBack)
		wantImage(s, "app:1")
	})
}

// TestServeWithoutSetting restarts serve without the setting, while an update is watched.
func TestServeWithoutSetting(t *testing.T) {
	t.Parallel()
	rig.ServeWithoutCgroups(t, func(t *testing.T, s *rig.Supervised) {
		s.End()
		s.Settings.ProgressDeadline = 2 * time.Minute
		s.Start()
		plain := func(container string) string {
			return rig.PodText("web", "Always", "terminationGracePeriodSeconds: 5", "containers:", "- {name: web, "+container+"}")
		}
		s.Files.Write(rig.File("web"), plain("image: registry.example/app:1"))
		time.Sleep(time.Minute)
		wantUpdate(s, "web", store.UpdateGood)
		s.Files.Write(rig.File("web"), plain("image: registry.example/app:2, "+neverReady))
		time.Sleep(4 * time.Minute)
		wantUpdate(s, "web", store.UpdateRolledBack)
		s.End()
		s.Settings.ProgressDeadline = 0
		s.Start()
		time.Sleep(time.Hour)
		wantImage(s, "app:1")
		if c := pending(s, "web"); c == nil || c.Reason != "RolledBack" {
			t.Errorf("condition %+v", c)
		}
		// The next update is not watched.
		s.Files.Write(rig.File("web"), plain("image: registry.example/app:2, args: [x], "+neverReady))
		time.Sleep(time.Hour)
		wantImage(s, "app:2")
		wantUpdate(s, "web", store.UpdateNone)
	})
}

// TestServeSettingForRunningPods begins to watch updates of pods that run already: the definition in effect is the last good
// one if the pod is ready.
func TestServeSettingForRunningPods(t *testing.T) {
	t.Parallel()
	rig.ServeWithoutCgroups(t, func(t *testing.T, s *rig.Supervised) {
		s.Files.Write(rig.File("web"), rig.ServedPod("web"))
		time.Sleep(time.Hour)
		wantUpdate(s, "web", store.UpdateNone)
		s.Files.Write(rig.File("web"), watchedPod("web", "image: registry.example/app:2, "+neverReady))
		time.Sleep(4 * time.Minute)
		wantUpdate(s, "web", store.UpdateRolledBack)
		wantImage(s, "app:1")
	})
}

// TestServeRollsBackSecretsInMemory keeps the Secrets in memory, and loses them.
func TestServeRollsBackSecretsInMemory(t *testing.T) {
	t.Parallel()
	rig.ServeWithoutCgroups(t, func(t *testing.T, s *rig.Supervised) {
		s.End()
		s.KeepSecretsInMemory()
		s.Start()
		text := func(image, value string) string {
			return strings.Replace(rig.PodText("web", "Always", "terminationGracePeriodSeconds: 5", "containers:",
				"- {name: web, image: registry.example/"+image+", env: [{name: K, valueFrom: {secretKeyRef: {name: s, key: k}}}]}"),
				"metadata: {", "metadata: {annotations: {podrun.dev/progress-deadline: 2m}, ", 1) +
				"\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {k: " + value + "}\n"
		}
		value := func() string {
			envs := s.Running("web").Config.GetEnvs()
			if len(envs) == 0 {
				return ""
			}
			return string(envs[0].GetValue())
		}
		s.Files.Write(rig.File("web"), text("app:1", "hunter2"))
		time.Sleep(time.Minute)
		wantUpdate(s, "web", store.UpdateGood)
		bad := strings.Replace(text("app:2", "hunter3"), "app:2,", "app:2, "+neverReady+",", 1)
		s.Files.Write(rig.File("web"), bad)
		time.Sleep(4 * time.Minute)
		wantUpdate(s, "web", store.UpdateRolledBack)
		wantImage(s, "app:1")
		if value() != "hunter2" {
			t.Errorf("the Secret is %q", value())
		}
		for _, dir := range []string{"pods", "history", "updates"} {
			if found := grep(t, filepath.Join(s.Layout().RootDir, dir), "aHVudGVy"); found != "" {
				t.Errorf("%s contains a Secret", found)
			}
		}
		// After a reboot, the last good definition gets the Secret of the source, which has the same name.
		s.End()
		s.Runtime.Restart()
		s.Must(nil, os.RemoveAll(s.Layout().Secrets().LastGoods()))
		s.LoseSecrets()
		s.Start()
		time.Sleep(time.Hour)
		wantImage(s, "app:1")
		wantUpdate(s, "web", store.UpdateRolledBack)
		if value() != "hunter3" {
			t.Errorf("the Secret after the reboot is %q", value())
		}
		if c := pending(s, "web"); c == nil || c.Reason != "RolledBack" {
			t.Errorf("condition %+v", c)
		}
		s.Files.Remove(rig.File("web"))
		time.Sleep(time.Minute)
		s.NothingInMemory()
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
	rig.ServeWithoutCgroups(t, func(t *testing.T, s *rig.Supervised) {
		goodPod(s)
		uid := s.Pod("web").UID
		s.Files.Write(rig.File("web"), watchedPod("web", "image: registry.example/app:2, lifecycle: {postStart: {exec: {command: [sh, -c, exit 3]}}}"))
		clear := s.Runtime.Fault("StopContainer", critest.Fault{When: critest.Before, Delay: 30 * time.Second})
		time.Sleep(3 * time.Second)
		wantUpdate(s, "web", store.UpdateProgressing)
		if owner, err := store.ReadOwner(s.Layout(), identity.Pod{Namespace: "default", Name: "web"}); err != nil || !owner.Recreate {
			t.Errorf("the pod is not being replaced: %+v, %v", owner, err)
		}
		s.Restart()
		clear()
		time.Sleep(3 * time.Minute)
		wantUpdate(s, "web", store.UpdateRolledBack)
		wantImage(s, "app:1")
		if is := s.Pod("web").UID; is != uid {
			t.Errorf("the UID is %s, was %s", is, uid)
		}
	})
}

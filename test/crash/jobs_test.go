package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// jobSteps are the steps between the definition of a CronJob and the end of its first run: the record
// of the CronJob, its intention to start a Job, the record of the Job, the CronJob's status, the Job's
// pod, its first container, and the end of the Job.
var jobSteps = []string{"cronjob/write#1", "cronjob/written#1", "cronjob/write#2", "cronjob/written#2", "job/write#1", "job/written#1", "cronjob/write#3", "cronjob/written#3",
	"job/write#2", "job/written#2", "cri/RunPodSandbox/before#1", "cri/CreateContainer/after#1", "cri/StartContainer/sent#1", "cri/StartContainer/after#1", "job/write#3", "job/written#3"}

// TestJobKills kills `podrun serve` at each of jobSteps. The next serve process must run one Job
// for each time of the schedule, and remove all objects when the file is removed.
func TestJobKills(t *testing.T) {
	o, dir := onRuntime(t)
	for i, step := range jobSteps {
		t.Run(strings.ReplaceAll(step, "/", " "), func(t *testing.T) {
			t.Parallel()
			h := newHost(dir, 900+i)
			o.leaks(t.Context(), h)
			runs := filepath.Join(h.dir, "runs")
			manifests := filepath.Dir(h.source())
			if err := errors.Join(os.MkdirAll(manifests, 0o755), os.MkdirAll(runs, 0o755), os.WriteFile(h.source(), []byte(cronJobFor(h, runs)), 0o600)); err != nil {
				t.Fatal(err)
			}
			first := h.during([]string{"PODRUN_FAULTPOINT=" + step}, func(ctx context.Context) {
				_ = until(ctx, func() error { return errors.New("the process runs") })
			}, "serve", manifests)
			if !first.killed {
				t.Fatalf("not killed: %s", last(first.out, 10))
			}
			after := h.during(nil, func(ctx context.Context) {
				if err := until(ctx, func() error { return ended(h) }); err != nil {
					t.Error(err)
				}
				if err := os.Remove(h.source()); err != nil {
					t.Error(err)
				}
				if err := until(ctx, func() error { return forgotten(h) }); err != nil {
					t.Error(err)
				}
			}, "serve", manifests)
			if after.code != 0 {
				t.Errorf("code %d: %s", after.code, last(after.out, 10))
			}
			ranOnce(t, runs, "log")
			if r := h.podrun(nil, "gc"); r.code != 0 {
				t.Error(r.out)
			}
			if left, _ := splitLost(o.leaks(t.Context(), h)); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// TestJobsUnderKills kills `podrun serve` PODRUN_JOB_KILLS times (default 5) at random times, while a Job with
// many completions and a CronJob run. No pod may run twice, no Job of the CronJob may run twice, and the
// Job must have exactly its completions. PODRUN_CRASH_SEED selects the times.
func TestJobsUnderKills(t *testing.T) {
	o, dir := onRuntime(t)
	kills, seed := number("PODRUN_JOB_KILLS", 5), uint64(number("PODRUN_CRASH_SEED", 1))
	random := rand.New(rand.NewPCG(seed, seed))
	h := newHost(dir, 950)
	o.leaks(t.Context(), h)
	runs, manifests := filepath.Join(h.dir, "runs"), filepath.Dir(h.source())
	completions := kills + 3
	if err := errors.Join(os.MkdirAll(manifests, 0o755), os.MkdirAll(runs, 0o755), os.WriteFile(h.source(), []byte(cronJobFor(h, runs)+"---\n"+jobFor(h, runs, completions)), 0o600)); err != nil {
		t.Fatal(err)
	}
	for i := range kills {
		h.killAfter = 200*time.Millisecond + time.Duration(random.Int64N(int64(4*time.Second)))
		if r := h.podrun(nil, "serve", manifests); !r.killed {
			t.Fatalf("kill %d: code %d: %s", i, r.code, last(r.out, 10))
		}
	}
	h.killAfter = 0
	var succeeded, failed string
	after := h.during(nil, func(ctx context.Context) {
		status := func(field string) string {
			return strings.TrimSpace(h.podrun(nil, "get", "job", h.pod+"-steps", "-o", "jsonpath={.status."+field+"}").out)
		}
		for n := range completions { // the Job starts its pods one after the other
			if err := until(ctx, func() error {
				if have, _ := strconv.Atoi(status("succeeded")); have <= n {
					return fmt.Errorf("%d of %d pods of the Job have succeeded", have, completions)
				}
				return nil
			}); err != nil {
				t.Error(err)
				break
			}
		}
		if err := until(ctx, func() error {
			if r := status("conditions[*].type"); !strings.Contains(r, "Complete") {
				return errors.New("the Job has not ended: " + r)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		succeeded, failed = status("succeeded"), status("failed")
		// A kill may have prevented the first Jobs of the CronJob from running.
		if err := until(ctx, func() error {
			data, err := os.ReadFile(filepath.Join(runs, "log"))
			if err == nil && len(data) == 0 {
				err = errors.New("no Job of the CronJob has run")
			}
			return err
		}); err != nil {
			t.Error(err)
		}
		if err := os.Remove(h.source()); err != nil {
			t.Error(err)
		}
		if err := until(ctx, func() error { return forgotten(h) }); err != nil {
			t.Error(err)
		}
	}, "serve", manifests)
	if after.code != 0 {
		t.Errorf("code %d: %s", after.code, last(after.out, 10))
	}
	jobs, pods := ranOnce(t, runs, "log"), ranOnce(t, runs, "steps")
	// A kill may interrupt the start of a container whose process has already run. The pod of this
	// container counts as failed.
	interrupted, _ := strconv.Atoi(failed)
	if succeeded != strconv.Itoa(completions) || pods < completions || pods > completions+interrupted {
		t.Errorf("%s of %d completions, %d pods failed, %d pods ran", succeeded, completions, interrupted, pods)
	}
	if r := h.podrun(nil, "gc"); r.code != 0 {
		t.Error(r.out)
	}
	left, lost := splitLost(o.leaks(t.Context(), h))
	if len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	fmt.Printf("jobs under kills: %d kills, %d completions of a Job in %d pods that ran (%d failed), %d Jobs of a CronJob; none ran twice; containerd lost %d objects\n", kills, completions, pods, interrupted, jobs, lost)
}

// ranOnce fails the test if a file in runs contains a name twice, and returns the number of names.
func ranOnce(t *testing.T, runs, file string) int {
	data, err := os.ReadFile(filepath.Join(runs, file))
	if err != nil {
		t.Error(err)
	}
	count := map[string]int{}
	for name := range strings.FieldsSeq(string(data)) {
		if count[name]++; count[name] > 1 {
			t.Errorf("%s ran %d times", name, count[name])
		}
	}
	return len(count)
}

// jobFor returns a Job whose pods append their names to the file steps in runs.
func jobFor(h *host, runs string, completions int) string {
	return fmt.Sprintf(`apiVersion: batch/v1
kind: Job
metadata: {name: %s-steps, namespace: crash}
spec:
  completions: %d
  backoffLimit: 1000
  template:
    spec:
      dnsPolicy: Default
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      volumes: [{name: runs, hostPath: {path: %s}}]
      containers:
      - name: app
        image: %s
        command: [sh, -c, "echo $POD >> /runs/steps; sleep 0.3"]
        env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
        volumeMounts: [{name: runs, mountPath: /runs}]
`, h.pod, completions, runs, os.Getenv("PODRUN_TEST_IMAGE"))
}

// cronJobFor returns a CronJob whose Jobs append their names to the file log in runs. A Job's name
// contains the minute of its start, so there is one Job per minute.
func cronJobFor(h *host, runs string) string {
	return fmt.Sprintf(`apiVersion: batch/v1
kind: CronJob
metadata: {name: %s, namespace: crash}
spec:
  schedule: "@every 1s"
  concurrencyPolicy: Forbid
  jobTemplate:
    spec:
      backoffLimit: 0
      template:
        spec:
          dnsPolicy: Default
          restartPolicy: Never
          terminationGracePeriodSeconds: 0
          volumes: [{name: runs, hostPath: {path: %s}}]
          containers:
          - name: app
            image: %s
            command: [sh, -c, "echo $JOB >> /runs/log; sleep 0.3"]
            env: [{name: JOB, valueFrom: {fieldRef: {fieldPath: "metadata.labels['job-name']"}}}]
            volumeMounts: [{name: runs, mountPath: /runs}]
`, h.pod, runs, os.Getenv("PODRUN_TEST_IMAGE"))
}

// ended returns nil if a Job has ended, and an error otherwise.
func ended(h *host) error {
	r := h.podrun(nil, "get", "jobs")
	if r.code != 0 || !strings.Contains(r.out, "Complete") && !strings.Contains(r.out, "Failed") {
		return errors.New("no Job has ended: " + r.out)
	}
	return nil
}

// forgotten returns nil if neither a record nor a pod remains, and an error otherwise.
func forgotten(h *host) error {
	r := h.podrun(nil, "get", "all")
	if r.code != 0 || !strings.Contains(r.out, "no objects found") {
		return errors.New("left: " + r.out)
	}
	return nil
}

package controllers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	batchdefaults "k8s.io/kubernetes/pkg/apis/batch/v1"
	"k8s.io/kubernetes/pkg/controller/cronjob"
	"k8s.io/utils/ptr"

	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/serve/schedule"
)

//go:linkname syncCronJob k8s.io/kubernetes/pkg/controller/cronjob.(*ControllerV2).syncCronJob
func syncCronJob(c *cronjob.ControllerV2, ctx context.Context, cj *batchv1.CronJob, jobs []*batchv1.Job) (*time.Duration, bool, error)

//go:linkname cleanupFinishedJobs k8s.io/kubernetes/pkg/controller/cronjob.(*ControllerV2).cleanupFinishedJobs
func cleanupFinishedJobs(c *cronjob.ControllerV2, ctx context.Context, cj *batchv1.CronJob, jobs []*batchv1.Job) bool

// set sets an unexported field of a controller.
func set(controller any, field string, value any) {
	f := reflect.ValueOf(controller).Elem().FieldByName(field)
	reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem().Set(reflect.ValueOf(value))
}

// schedules contains regular and irregular schedules, a schedule that never matches, and one with a
// time zone.
var schedules = []string{"* * * * *", "*/7 * * * *", "0 * * * *", "30 2 * * *", "0 0 * * 0", "15 10 1 * *", "30 6-16/4 * * 1-5", "0 0 29 2 *", "59 23 31 2 *",
	"@hourly", "@daily", "@every 90s", "@every 1h", "0 3 25 12 *", "TZ=America/New_York 30 1 * * *"}

var zones = []*string{nil, ptr.To("UTC"), ptr.To("Europe/Berlin"), ptr.To("America/St_Johns"), ptr.To("Asia/Kathmandu"), ptr.To("Pacific/Apia"), ptr.To("No/Where")}

// TestCronJob compares each decision for random CronJobs, with random clocks that sometimes jump.
func TestCronJob(t *testing.T) {
	for seed := range uint64(600) {
		r := rand.New(rand.NewPCG(seed, 39))
		world := newCronWorld(r)
		for step := range 40 {
			if !world.step(t, fmt.Sprintf("seed %d, step %d", seed, step)) {
				return
			}
		}
	}
}

// cronWorld is a CronJob with its Jobs. podrun and the controller start from the same state at each
// step.
type cronWorld struct {
	r       *rand.Rand
	now     time.Time
	cronJob *batchv1.CronJob
	jobs    map[string]*batchv1.Job
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func newCronWorld(r *rand.Rand) *cronWorld {
	w := &cronWorld{r: r, jobs: map[string]*batchv1.Job{}}
	// The time is in the week of the change to winter time, or is any time.
	w.now = pick(r, time.Date(2026, 10, 24, 22, 0, 0, 0, time.UTC), time.Date(2026, 3, 28, 20, 0, 0, 0, time.UTC), time.Unix(1.7e9+r.Int64N(1e8), r.Int64N(1e9)))
	c := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "cron-uid", CreationTimestamp: metav1.NewTime(w.now.Truncate(time.Second))}}
	c.Spec = batchv1.CronJobSpec{Schedule: pick(r, schedules...), TimeZone: pick(r, zones...), ConcurrencyPolicy: pick(r, batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent, ""),
		StartingDeadlineSeconds: pick(r, nil, nil, ptr.To(int64(0)), ptr.To(int64(30)), ptr.To(int64(3600)), ptr.To(int64(200000))),
		Suspend:                 pick(r, nil, nil, ptr.To(false), ptr.To(true)), SuccessfulJobsHistoryLimit: pick(r, nil, ptr.To(int32(0)), ptr.To(int32(1))), FailedJobsHistoryLimit: pick(r, nil, ptr.To(int32(0)), ptr.To(int32(2))),
		JobTemplate: batchv1.JobTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"l": "v"}, Annotations: map[string]string{"a": "b"}}}}
	batchdefaults.SetObjectDefaults_CronJob(c)
	w.cronJob = c
	return w
}

// advance moves the clock, ends Jobs, and changes the CronJob.
func (w *cronWorld) advance() {
	r := w.r
	w.now = w.now.Add(pick(r, time.Second, 29*time.Second, time.Minute, 10*time.Minute, time.Hour, 25*time.Hour, 40*24*time.Hour, 5*365*24*time.Hour, -time.Minute, -3*time.Hour))
	for _, name := range sorted(w.jobs) {
		j := w.jobs[name]
		if j.Status.StartTime == nil && r.IntN(2) == 0 {
			j.Status.StartTime = ptr.To(metav1.NewTime(w.now.Truncate(time.Second)))
		}
		switch {
		case lifecycle.JobFinished(j) || r.IntN(3) > 0:
		case r.IntN(2) == 0:
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
		default:
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
			j.Status.CompletionTime = ptr.To(metav1.NewTime(w.now.Truncate(time.Second)))
		}
		if r.IntN(10) == 0 {
			delete(w.jobs, name)
		}
	}
	if r.IntN(15) == 0 {
		w.cronJob.Spec.Suspend = ptr.To(!ptr.Deref(w.cronJob.Spec.Suspend, false))
	}
	if r.IntN(30) == 0 {
		w.cronJob.Spec.Schedule = pick(r, schedules...)
	}
}

func sorted[T any](m map[string]T) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// outcome contains the results that must be equal for podrun and the controller.
type outcome struct {
	Started, Deleted []string
	Job              *batchv1.Job
	Status           batchv1.CronJobStatus
	Next             time.Time
	Failed           bool
}

func (w *cronWorld) step(t *testing.T, name string) bool {
	w.advance()
	want, afterwards := w.controller(t)
	got := w.podrun()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: %s, %+v (-controller +podrun)\n%s", name, w.now, w.cronJob, diff)
		return false
	}
	w.cronJob.Status = want.Status
	w.jobs = afterwards
	return true
}

func (w *cronWorld) list() (out []*batchv1.Job) {
	for _, name := range sorted(w.jobs) {
		out = append(out, w.jobs[name].DeepCopy())
	}
	return out
}

// controller makes the controller sync the CronJob. It returns the Jobs afterwards.
func (w *cronWorld) controller(t *testing.T) (outcome, map[string]*batchv1.Job) {
	client := fake.NewClientset()
	ctx := t.Context()
	for _, j := range w.list() {
		if _, err := client.BatchV1().Jobs("ns").Create(ctx, j, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	c, err := cronjob.NewControllerV2(ctx, factory.Batch().V1().Jobs(), factory.Batch().V1().CronJobs(), client)
	if err != nil {
		t.Fatal(err)
	}
	set(c, "now", func() time.Time { return w.now })
	cj := w.cronJob.DeepCopy()
	after, _, err := syncCronJob(c, ctx, cj, w.list())
	out := outcome{}
	if after != nil {
		out.Next = w.now.Add(*after)
	}
	// The controller's sync does the same.
	jobs := w.list()
	cleanupFinishedJobs(c, ctx, cj, jobs)
	list, listErr := client.BatchV1().Jobs("ns").List(ctx, metav1.ListOptions{})
	if listErr != nil || err != nil {
		t.Fatal(listErr, err)
	}
	left := map[string]*batchv1.Job{}
	for i := range list.Items {
		j := &list.Items[i]
		if w.jobs[j.Name] == nil {
			out.Started = append(out.Started, j.Name)
			out.Job = j.DeepCopy()
			out.Job.TypeMeta, out.Job.ManagedFields = metav1.TypeMeta{}, nil
			j.UID = types.UID("uid-" + j.Name)
		}
		left[j.Name] = j
	}
	for name := range w.jobs {
		if left[name] == nil {
			out.Deleted = append(out.Deleted, name)
		}
	}
	slices.Sort(out.Deleted)
	for i := range cj.Status.Active {
		if r := &cj.Status.Active[i]; r.UID == "" {
			r.UID = types.UID("uid-" + r.Name)
		}
	}
	out.Status = comparable(cj.Status)
	return out, left
}

// comparable returns the parts of a status that both podrun and the controller set.
func comparable(s batchv1.CronJobStatus) batchv1.CronJobStatus {
	for i := range s.Active {
		s.Active[i].ResourceVersion, s.Active[i].APIVersion, s.Active[i].Kind = "", "", ""
	}
	if len(s.Active) == 0 {
		s.Active = nil
	}
	return s
}

func (w *cronWorld) podrun() outcome {
	timetable, err := schedule.Parse(w.cronJob)
	in := schedule.CronJobInput{CronJob: w.cronJob.DeepCopy(), Timetable: timetable, Jobs: w.list(), Now: w.now}
	if err != nil {
		// The caller of CronJob does the same, because no run is due without a timetable.
		in.CronJob.Spec.Suspend = ptr.To(true)
	}
	d, _ := schedule.CronJob(in)
	out := outcome{Next: d.Next, Status: d.Status}
	for _, name := range d.Delete {
		out.Deleted = append(out.Deleted, name)
	}
	slices.Sort(out.Deleted)
	if d.Start != nil {
		out.Started = []string{d.Start.Name}
		out.Job = d.Start
		out.Job.TypeMeta = metav1.TypeMeta{}
		out.Status.Active = append(out.Status.Active, corev1.ObjectReference{Namespace: "ns", Name: d.Start.Name, UID: types.UID("uid-" + d.Start.Name)})
	}
	out.Status = comparable(out.Status)
	return out
}

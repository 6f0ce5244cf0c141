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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	batchinformers "k8s.io/client-go/informers/batch/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	schedulinginformers "k8s.io/client-go/informers/scheduling/v1alpha2"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	batchdefaults "k8s.io/kubernetes/pkg/apis/batch/v1"
	"k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve/schedule"
)

//go:linkname newControllerWithClock k8s.io/kubernetes/pkg/controller/job.newControllerWithClock
func newControllerWithClock(ctx context.Context, client clientset.Interface, clock clock.WithTicker, pods coreinformers.PodInformer, jobs batchinformers.JobInformer,
	workloads schedulinginformers.WorkloadInformer, groups schedulinginformers.PodGroupInformer) (*job.Controller, error)

//go:linkname syncJob k8s.io/kubernetes/pkg/controller/job.(*Controller).syncJob
func syncJob(c *job.Controller, ctx context.Context, key string) error

//go:linkname newUIDTrackingExpectations k8s.io/kubernetes/pkg/controller/job.newUIDTrackingExpectations
func newUIDTrackingExpectations() unsafe.Pointer

// reset sets an unexported pointer field, whose type is not exported either.
func reset(controller any, field string, value unsafe.Pointer) {
	f := reflect.ValueOf(controller).Elem().FieldByName(field)
	reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem().Set(reflect.NewAt(f.Type().Elem(), value))
}

// TestJob runs random Jobs whose pods end in random ways, and compares the status and the number of
// pods after each step.
func TestJob(t *testing.T) {
	for seed := range uint64(400) {
		w := newJobWorld(t, rand.New(rand.NewPCG(seed, 39)))
		for step := range 60 {
			if !w.step(fmt.Sprintf("seed %d, step %d", seed, step)) {
				return
			}
		}
	}
}

// jobWorld runs a Job twice: with the controller, and with podrun's decisions. The n-th pods of both
// end in the same way at the same time.
type jobWorld struct {
	t     *testing.T
	r     *rand.Rand
	clock *clocktesting.FakeClock

	controller *job.Controller
	jobs, pods interface {
		Add(any) error
		Update(any) error
		Delete(any) error
	}
	job  *batchv1.Job  // the controller's Job
	made []*corev1.Pod // the controller's pods
	// the number of the controller's pods that were removed
	removed int

	record *store.JobRecord
	ends   map[string]*corev1.Pod // podrun's pods
	next   time.Time
}

func newJobWorld(t *testing.T, r *rand.Rand) *jobWorld {
	w := &jobWorld{t: t, r: r, clock: clocktesting.NewFakeClock(time.Unix(1.7e9, 0)), ends: map[string]*corev1.Pod{}}
	w.job = randomJob(r)
	w.record = &store.JobRecord{Job: w.job.DeepCopy()}
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	c, err := newControllerWithClock(t.Context(), client, w.clock, factory.Core().V1().Pods(), factory.Batch().V1().Jobs(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.controller, w.jobs, w.pods = c, factory.Batch().V1().Jobs().Informer().GetStore(), factory.Core().V1().Pods().Informer().GetStore()
	set(c, "podControl", controller.PodControlInterface(&podControl{w: w}))
	set(c, "updateStatusHandler", func(_ context.Context, j *batchv1.Job) (*batchv1.Job, error) {
		w.job = j.DeepCopy()
		return j, w.jobs.Update(w.job)
	})
	if err := w.jobs.Add(w.job); err != nil {
		t.Fatal(err)
	}
	return w
}

func randomJob(r *rand.Rand) *batchv1.Job {
	j := &batchv1.Job{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "j", UID: "job-uid"}}
	j.Spec = batchv1.JobSpec{Parallelism: pick(r, nil, ptr.To(int32(1)), ptr.To(int32(1)), ptr.To(int32(0))), Completions: pick(r, nil, ptr.To(int32(1)), ptr.To(int32(3)), ptr.To(int32(0))),
		BackoffLimit: pick(r, nil, ptr.To(int32(0)), ptr.To(int32(1)), ptr.To(int32(3)), ptr.To(int32(12))), ActiveDeadlineSeconds: pick(r, nil, nil, nil, ptr.To(int64(100)), ptr.To(int64(3000))),
		Suspend: pick(r, nil, nil, ptr.To(true)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"job": "j"}},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"job": "j"}}, Spec: corev1.PodSpec{RestartPolicy: pick(r, corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure), Containers: []corev1.Container{{Name: "c"}}}}}
	if r.IntN(3) == 0 {
		j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
			{Action: batchv1.PodFailurePolicyActionIgnore, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}},
			{Action: batchv1.PodFailurePolicyActionFailJob, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{ContainerName: pick(r, nil, ptr.To("c"), ptr.To("other")), Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{42}}},
			{Action: batchv1.PodFailurePolicyActionIgnore, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpNotIn, Values: []int32{1, 2, 42}}},
		}}
	}
	if r.IntN(4) == 0 {
		j.Spec.CompletionMode, j.Spec.Completions = ptr.To(batchv1.IndexedCompletion), ptr.To(int32(3))
	}
	// podrun replaces a pod only after it has ended.
	j.Spec.PodReplacementPolicy = ptr.To(batchv1.Failed)
	batchdefaults.SetObjectDefaults_Job(j)
	return j
}

// podControl creates and deletes the controller's pods.
type podControl struct {
	controller.FakePodControl
	w *jobWorld
}

func (p *podControl) CreatePodsWithGenerateName(_ context.Context, namespace string, template *corev1.PodTemplateSpec, _ runtime.Object, ref *metav1.OwnerReference, _ string) error {
	w := p.w
	n := len(w.made) + w.removed
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("pod-%d", n), UID: types.UID(fmt.Sprintf("pod-%d", n)), Labels: template.Labels, Annotations: template.Annotations,
		Finalizers: template.Finalizers, OwnerReferences: []metav1.OwnerReference{*ref}, CreationTimestamp: metav1.NewTime(w.clock.Now())}, Spec: template.Spec, Status: corev1.PodStatus{Phase: corev1.PodPending}}
	w.made = append(w.made, pod)
	return nil
}

func (p *podControl) PatchPod(_ context.Context, _, name string, _ []byte) error {
	// The only patch removes the finalizer.
	for _, pod := range p.w.made {
		if pod.Name == name {
			pod.Finalizers = nil
		}
	}
	return nil
}

func (p *podControl) DeletePod(_ context.Context, _, name string, _ runtime.Object) error {
	for _, pod := range p.w.made {
		if pod.Name == name && pod.DeletionTimestamp == nil {
			pod.DeletionTimestamp = ptr.To(metav1.NewTime(p.w.clock.Now()))
		}
	}
	return nil
}

// endings are the ways in which a pod ends.
var endings = []func(*corev1.Pod, time.Time){
	func(p *corev1.Pod, at time.Time) { p.Status.Phase = corev1.PodSucceeded; exit(p, at, 0) },
	func(p *corev1.Pod, at time.Time) { p.Status.Phase = corev1.PodFailed; exit(p, at, 1) },
	func(p *corev1.Pod, at time.Time) { p.Status.Phase = corev1.PodFailed; exit(p, at, 42) },
	func(p *corev1.Pod, at time.Time) { p.Status.Phase = corev1.PodFailed; exit(p, at, 7) },
	func(p *corev1.Pod, at time.Time) {
		p.Status.Phase = corev1.PodFailed
		exit(p, at, 137)
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
	},
}

func exit(p *corev1.Pod, at time.Time, code int32) {
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.NewTime(at.Truncate(time.Second))}}}}
}

func (w *jobWorld) step(name string) bool {
	w.clock.Step(pick(w.r, time.Second, 3*time.Second, 11*time.Second, 40*time.Second, 3*time.Minute, 15*time.Minute))
	if !w.next.IsZero() && w.r.IntN(2) == 0 && w.next.After(w.clock.Now()) {
		w.clock.SetTime(w.next)
	}
	w.end()
	if w.r.IntN(20) == 0 && !lifecycle.JobFinished(w.job) {
		suspend := ptr.To(!ptr.Deref(w.job.Spec.Suspend, false))
		w.job = w.job.DeepCopy()
		w.job.Spec.Suspend, w.record.Job.Spec.Suspend = suspend, suspend
	}
	w.runController()
	w.runPodrun()
	if diff := cmp.Diff(viewOf(w.job, len(w.made)+w.removed), viewOf(w.record.Job, int(w.record.Attempts))); diff != "" {
		w.t.Errorf("%s: (-controller +podrun)\n%s\njob %+v\nrecord %+v", name, diff, w.job, w.record)
		return false
	}
	return true
}

// end changes the statuses of the active pods, and completes removals.
func (w *jobWorld) end() {
	for name := range w.ends {
		if w.stateOf(name) == store.JobPodStopping {
			delete(w.ends, name)
		}
	}
	for _, p := range w.made {
		if p.DeletionTimestamp != nil && p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded {
			p.Status.Phase = corev1.PodFailed
			exit(p, w.clock.Now(), 1)
		}
	}
	var mine, theirs *corev1.Pod
	for _, p := range w.record.Pods {
		if p.State == store.JobPodActive {
			mine = w.ends[p.Name]
		}
	}
	for _, p := range w.made {
		if p.DeletionTimestamp == nil && (p.Status.Phase == corev1.PodPending || p.Status.Phase == corev1.PodRunning) {
			theirs = p
		}
	}
	status, how, restarts := w.r.IntN(4), pick(w.r, endings...), int32(w.r.IntN(3))
	for _, p := range []*corev1.Pod{mine, theirs} {
		switch {
		case p == nil || status == 0:
		case status == 1:
			p.Status.Phase = corev1.PodRunning
			if p.Spec.RestartPolicy == corev1.RestartPolicyOnFailure {
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", RestartCount: restarts}}
			}
		default:
			how(p, w.clock.Now())
		}
	}
}

func (w *jobWorld) stateOf(name string) store.JobPodState {
	for _, p := range w.record.Pods {
		if p.Name == name {
			return p.State
		}
	}
	return ""
}

// runController syncs until the controller has nothing more to do at this time.
func (w *jobWorld) runController() {
	for range 5 {
		if err := w.jobs.Update(w.job); err != nil {
			w.t.Fatal(err)
		}
		w.made = slices.DeleteFunc(w.made, func(p *corev1.Pod) bool {
			gone := p.DeletionTimestamp != nil && p.Finalizers == nil && p.Status.Phase == corev1.PodFailed
			if gone {
				w.removed++
				_ = w.pods.Delete(p)
			}
			return gone
		})
		for _, p := range w.made {
			if err := w.pods.Update(p.DeepCopy()); err != nil {
				w.t.Fatal(err)
			}
		}
		// This is necessary because no informer observes the changes.
		set(w.controller, "expectations", controller.ControllerExpectationsInterface(controller.NewControllerExpectations()))
		reset(w.controller, "finalizerExpectations", newUIDTrackingExpectations())
		if err := syncJob(w.controller, w.t.Context(), "ns/j"); err != nil {
			w.t.Fatal(err)
		}
	}
}

// runPodrun decides until podrun has nothing more to do at this time.
func (w *jobWorld) runPodrun() {
	for range 4 {
		states := map[string]schedule.PodState{}
		for _, p := range w.record.Pods {
			states[p.Name] = schedule.PodState{Pod: w.ends[p.Name], Absent: w.ends[p.Name] == nil}
		}
		d := schedule.Job(schedule.JobInput{Record: w.record, Pods: states, Now: w.clock.Now()})
		w.record, w.next = d.Record, d.Next
		for _, p := range w.record.Pods {
			if w.ends[p.Name] == nil && p.State == store.JobPodActive {
				w.ends[p.Name] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: p.Name}, Spec: w.record.Job.Spec.Template.Spec, Status: corev1.PodStatus{Phase: corev1.PodPending}}
			}
		}
	}
}

// jobView contains the results that must be equal for podrun and the controller.
type jobView struct {
	Succeeded, Failed, Active int32
	Start, Completion         *metav1.Time
	Indexes                   string
	Conditions                []string
	Created                   int
}

func viewOf(j *batchv1.Job, created int) jobView {
	s := &j.Status
	v := jobView{Succeeded: s.Succeeded, Failed: s.Failed, Active: s.Active, Start: s.StartTime, Completion: s.CompletionTime, Indexes: s.CompletedIndexes, Created: created}
	for _, c := range s.Conditions {
		v.Conditions = append(v.Conditions, fmt.Sprintf("%s=%s %s at %s", c.Type, c.Status, c.Reason, c.LastTransitionTime.UTC()))
	}
	slices.Sort(v.Conditions)
	return v
}

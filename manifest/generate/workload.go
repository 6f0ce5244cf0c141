package generate

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WorkloadFlags are the flags of kubectl create deployment, job and cronjob.
type WorkloadFlags struct {
	Name     string
	Images   []string
	Port     int32 // port of a deployment; 0 for none
	Replicas int32
	Schedule string // of a cronjob
	Restart  corev1.RestartPolicy
	Command  []string
}

// Deployment returns the Deployment that kubectl creates from the flags.
func (f *WorkloadFlags) Deployment() *appsv1.Deployment {
	app := map[string]string{"app": f.Name}
	d := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: f.Name, Labels: app},
		Spec: appsv1.DeploymentSpec{Replicas: &f.Replicas, Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: app}}},
	}
	used := map[string]int{}
	for i, image := range f.Images {
		c := corev1.Container{Name: nameOf(image), Image: image, Command: f.Command}
		if used[c.Name]++; used[c.Name] > 1 {
			c.Name = fmt.Sprintf("%s-%d", c.Name, used[c.Name])
		}
		// Only the first container has the port, as in kubectl.
		if f.Port != 0 && i == 0 {
			c.Ports = []corev1.ContainerPort{{ContainerPort: f.Port}}
		}
		d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, c)
	}
	return d
}

// Job returns the Job that kubectl creates from the flags.
func (f *WorkloadFlags) Job() *batchv1.Job {
	return &batchv1.Job{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Name: f.Name}, Spec: f.jobSpec(corev1.RestartPolicyNever)}
}

// CronJob returns the CronJob that kubectl creates from the flags.
func (f *WorkloadFlags) CronJob() *batchv1.CronJob {
	restart := f.Restart
	if restart == "" {
		restart = corev1.RestartPolicyOnFailure
	}
	return &batchv1.CronJob{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "CronJob"},
		ObjectMeta: metav1.ObjectMeta{Name: f.Name},
		Spec: batchv1.CronJobSpec{Schedule: f.Schedule,
			JobTemplate: batchv1.JobTemplateSpec{ObjectMeta: metav1.ObjectMeta{Name: f.Name}, Spec: f.jobSpec(restart)}}}
}

func (f *WorkloadFlags) jobSpec(restart corev1.RestartPolicy) batchv1.JobSpec {
	spec := corev1.PodSpec{RestartPolicy: restart}
	for _, image := range f.Images {
		spec.Containers = append(spec.Containers, corev1.Container{Name: f.Name, Image: image, Command: f.Command})
	}
	return batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: spec}}
}

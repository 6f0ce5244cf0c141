package manifest

import (
	"fmt"
	"slices"
	"strings"
	_ "time/tzdata" // the time zones of CronJobs, on hosts without them

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	podapi "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/apps"
	appsdefaults "k8s.io/kubernetes/pkg/apis/apps/v1"
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/batch"
	batchdefaults "k8s.io/kubernetes/pkg/apis/batch/v1"
	batchvalidation "k8s.io/kubernetes/pkg/apis/batch/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	coredefaults "k8s.io/kubernetes/pkg/apis/core/v1"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/features"

	"github.com/podrun/podrun/internal/problem"
)

// validateWorkload reports the errors that the API server would report for an object with a pod
// template. For example, the selector may be missing or may not match the template's labels, or
// the restart policy may not be allowed for such pods. validateWorkload changes obj, so obj must
// be a copy. takePod reports some of these problems again, and withoutRepeated removes the
// duplicates.
func (l *loader) validateWorkload(it item, h header, w workload, obj any) {
	meta, template := w.get(obj)
	if len(template.Spec.InitContainers)+len(template.Spec.Containers) > maxContainers {
		// takePod refuses the template, and validation would take long.
		return
	}
	object := l.objectName(h)
	*meta = metav1.ObjectMeta{
		Name:         meta.Name,
		GenerateName: meta.GenerateName,
		Namespace:    meta.Namespace,
		Labels:       meta.Labels,
		Annotations:  meta.Annotations,
	}
	if meta.Namespace == "" {
		meta.Namespace = l.opts.Namespace
	}
	in := it
	in.rename = [][2]string{{"spec", w.template + ".spec"}}
	spec := podSpec{l: l, it: in, object: object, spec: &template.Spec}
	spec.tokenVolumes()
	spec.hostPaths()
	allowPrivileged()
	errs, err := w.validate(obj)
	if err != nil {
		l.add(it.problem(object, "", "FieldValueInvalid", err.Error()))
		return
	}
	l.fieldErrors(it, object, slices.DeleteFunc(errs, func(e *field.Error) bool {
		// The validation of a StatefulSet also reports labels and annotations under paths that do not
		// exist. It also reports claims, but claimTemplates validates these.
		return slices.ContainsFunc([]string{w.template + ".labels", w.template + ".annotations", "spec.volumeClaimTemplates["}, func(prefix string) bool {
			return strings.HasPrefix(e.Field, prefix)
		})
	}))
}

// withoutRepeated removes problems that repeat an earlier problem of the same field.
func withoutRepeated(problems problem.List) problem.List {
	seen := map[[3]string]bool{}
	return slices.DeleteFunc(problems, func(p problem.Problem) bool {
		key := [3]string{p.Field, p.Reason, p.Message}
		repeated := seen[key]
		seen[key] = p.Field != ""
		return repeated
	})
}

// byAPI returns a kind's validation. Like an API server, it sets the defaults of an object,
// converts the object, drops the fields of disabled feature gates from its template, and
// validates it.
func byAPI[V, I any](setDefaults func(*V), convert func(*V, *I, conversion.Scope) error, template func(*I) *core.PodTemplateSpec,
	validate func(*I, corevalidation.PodValidationOptions) field.ErrorList) func(*V) (field.ErrorList, error) {
	return func(o *V) (field.ErrorList, error) {
		setDefaults(o)
		var internal I
		if err := convert(o, &internal, nil); err != nil {
			return nil, err
		}
		t := template(&internal)
		podapi.DropDisabledTemplateFields(t, nil)
		return validate(&internal, podapi.GetValidationOptionsFromPodTemplate(t, nil)), nil
	}
}

var (
	validateDeployment = byAPI(appsdefaults.SetObjectDefaults_Deployment, appsdefaults.Convert_v1_Deployment_To_apps_Deployment,
		func(o *apps.Deployment) *core.PodTemplateSpec { return &o.Spec.Template }, appsvalidation.ValidateDeployment)
	validateDaemonSet = byAPI(appsdefaults.SetObjectDefaults_DaemonSet, appsdefaults.Convert_v1_DaemonSet_To_apps_DaemonSet,
		func(o *apps.DaemonSet) *core.PodTemplateSpec { return &o.Spec.Template }, appsvalidation.ValidateDaemonSet)
	validateStatefulSet = byAPI(appsdefaults.SetObjectDefaults_StatefulSet, appsdefaults.Convert_v1_StatefulSet_To_apps_StatefulSet,
		func(o *apps.StatefulSet) *core.PodTemplateSpec { return &o.Spec.Template },
		func(o *apps.StatefulSet, opts corevalidation.PodValidationOptions) field.ErrorList {
			if u := o.Spec.UpdateStrategy.RollingUpdate; u != nil && !utilfeature.DefaultFeatureGate.Enabled(features.MaxUnavailableStatefulSet) {
				u.MaxUnavailable = nil // dropStatefulSetDisabledFields in registry/apps/statefulset
			}
			return appsvalidation.ValidateStatefulSet(o, opts)
		})
	validateReplicaSet = byAPI(appsdefaults.SetObjectDefaults_ReplicaSet, appsdefaults.Convert_v1_ReplicaSet_To_apps_ReplicaSet,
		func(o *apps.ReplicaSet) *core.PodTemplateSpec { return &o.Spec.Template }, appsvalidation.ValidateReplicaSet)
	validateReplicationController = byAPI(coredefaults.SetObjectDefaults_ReplicationController, coredefaults.Convert_v1_ReplicationController_To_core_ReplicationController,
		func(o *core.ReplicationController) *core.PodTemplateSpec { return o.Spec.Template }, corevalidation.ValidateReplicationController)
	validatePodTemplate = byAPI(coredefaults.SetObjectDefaults_PodTemplate, coredefaults.Convert_v1_PodTemplate_To_core_PodTemplate,
		func(o *core.PodTemplate) *core.PodTemplateSpec { return &o.Template }, corevalidation.ValidatePodTemplate)
	validateAnyJob = byAPI(batchdefaults.SetObjectDefaults_Job, batchdefaults.Convert_v1_Job_To_batch_Job,
		func(o *batch.Job) *core.PodTemplateSpec { return &o.Spec.Template },
		func(o *batch.Job, opts corevalidation.PodValidationOptions) field.ErrorList {
			return batchvalidation.ValidateJob(o, batchvalidation.JobValidationOptions{PodValidationOptions: opts})
		})
	validateCronJob = byAPI(batchdefaults.SetObjectDefaults_CronJob, batchdefaults.Convert_v1_CronJob_To_batch_CronJob,
		func(o *batch.CronJob) *core.PodTemplateSpec { return &o.Spec.JobTemplate.Spec.Template }, batchvalidation.ValidateCronJobCreate)
)

// generatedLabel is one of the labels with the Job's UID that an API server adds to the selector
// and the template of a Job.
const generatedLabel = "batch.kubernetes.io/controller-uid"

// validateJob validates a Job with a selector like those that an API server generates. If the
// Job was exported from a cluster, this selector replaces the Job's own.
func validateJob(o *batchv1.Job) (field.ErrorList, error) {
	if o.Spec.ManualSelector == nil || !*o.Spec.ManualSelector {
		manual, labels := true, map[string]string{generatedLabel: "podrun"}
		for key, value := range o.Spec.Template.Labels {
			if key != generatedLabel {
				labels[key] = value
			}
		}
		o.Spec.Template.Labels = labels
		o.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{generatedLabel: "podrun"}}
		o.Spec.ManualSelector = &manual
	}
	errs, err := validateAnyJob(o)
	if len(o.Name) > MaxJobName {
		// The API reports the label of the template that contains the name.
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), o.Name, fmt.Sprintf("must be no more than %d characters", MaxJobName)))
	}
	return errs, err
}

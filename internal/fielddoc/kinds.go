package fielddoc

import (
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
)

// Kind is a kind of object that podrun reads.
type Kind struct {
	Name           string
	Group, Version string
	Names          []string // plural, singular and short names, in lower case
	Use            string   // the purpose for which podrun reads the kind; "" for a Pod
	template       string   // path of the kind's pod template; "" if the kind has none
	of             reflect.Type
}

const oneOfTemplate = "podrun runs one pod from its template, with the object's name"

// severalOfTemplate is the note of the workloads that have a number of replicas.
const severalOfTemplate = oneOfTemplate + ", and spec.replicas pods if it has the annotation podrun.dev/replicas: honour"

// Kinds lists all kinds that podrun reads, the Pod first.
var Kinds = []Kind{
	{"Pod", "", "v1", []string{"pods", "pod", "po"}, "", "", reflect.TypeFor[corev1.Pod]()},
	{"ConfigMap", "", "v1", []string{"configmaps", "configmap", "cm"}, "read from the pod's input or a file of --configmap, for volumes and environment variables", "", reflect.TypeFor[corev1.ConfigMap]()},
	{"Secret", "", "v1", []string{"secrets", "secret"}, "read from the pod's input or a file of --secret, for volumes, environment variables and credentials of registries", "", reflect.TypeFor[corev1.Secret]()},
	{"PersistentVolumeClaim", "", "v1", []string{"persistentvolumeclaims", "persistentvolumeclaim", "pvc"}, "bound to a PersistentVolume of the input, or to a directory with --pvc NAME=DIR", "", reflect.TypeFor[corev1.PersistentVolumeClaim]()},
	{"PersistentVolume", "", "v1", []string{"persistentvolumes", "persistentvolume", "pv"}, "podrun binds claims of the input to it if its source is hostPath, local or nfs", "", reflect.TypeFor[corev1.PersistentVolume]()},
	{"PodTemplate", "", "v1", []string{"podtemplates", "podtemplate"}, oneOfTemplate, "template.", reflect.TypeFor[corev1.PodTemplate]()},
	{"Service", "", "v1", []string{"services", "service", "svc"}, "podrun gives it an address and forwards its ports to the selected pods of this host", "", reflect.TypeFor[corev1.Service]()},
	{"ReplicationController", "", "v1", []string{"replicationcontrollers", "replicationcontroller", "rc"}, severalOfTemplate, "spec.template.", reflect.TypeFor[corev1.ReplicationController]()},
	{"Deployment", "apps", "v1", []string{"deployments", "deployment", "deploy"}, severalOfTemplate, "spec.template.", reflect.TypeFor[appsv1.Deployment]()},
	{"DaemonSet", "apps", "v1", []string{"daemonsets", "daemonset", "ds"}, oneOfTemplate, "spec.template.", reflect.TypeFor[appsv1.DaemonSet]()},
	{"StatefulSet", "apps", "v1", []string{"statefulsets", "statefulset", "sts"}, severalOfTemplate, "spec.template.", reflect.TypeFor[appsv1.StatefulSet]()},
	{"ReplicaSet", "apps", "v1", []string{"replicasets", "replicaset", "rs"}, severalOfTemplate, "spec.template.", reflect.TypeFor[appsv1.ReplicaSet]()},
	{"Job", "batch", "v1", []string{"jobs", "job"}, oneOfTemplate + "; podrun serve runs the Job", "spec.template.", reflect.TypeFor[batchv1.Job]()},
	{"CronJob", "batch", "v1", []string{"cronjobs", "cronjob", "cj"}, "podrun serve runs its Jobs; podrun run runs its template once", "spec.jobTemplate.spec.template.", reflect.TypeFor[batchv1.CronJob]()},
	{"RuntimeClass", "node.k8s.io", "v1", []string{"runtimeclasses", "runtimeclass"}, "its handler, overhead and scheduling apply to pods that refer to it", "", reflect.TypeFor[nodev1.RuntimeClass]()},
	{"PriorityClass", "scheduling.k8s.io", "v1", []string{"priorityclasses", "priorityclass", "pc"}, "its value and preemptionPolicy apply to pods that refer to it", "", reflect.TypeFor[schedulingv1.PriorityClass]()},
}

// Find returns the kind with the given name, or nil if podrun does not read such a kind. The
// name may include the group (deployments.apps). Find ignores case.
func Find(name string) *Kind {
	for i := range Kinds {
		if slices.Contains(Kinds[i].Names, strings.ToLower(name)) {
			return &Kinds[i]
		}
	}
	return nil
}

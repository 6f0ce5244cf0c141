package view

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/serve"
)

// metricsVersion is the API version of the types below, which are those of
// k8s.io/metrics.
const metricsVersion = "metrics.k8s.io/v1beta1"

// containerMetrics is ContainerMetrics of the API. Usage omits unknown figures.
type containerMetrics struct {
	Name  string              `json:"name"`
	Usage corev1.ResourceList `json:"usage"`
}

// podMetric is PodMetrics of the API.
type podMetric struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Timestamp         metav1.Time `json:"timestamp"`
	// Window is omitted if podrun serve measured the usage.
	Window     *metav1.Duration   `json:"window,omitempty"`
	Containers []containerMetrics `json:"containers"`
}

// podMetricsList is PodMetricsList of the API.
type podMetricsList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []podMetric `json:"items"`
}

// PodMetrics converts the usage of pods to the form of a metrics server. It omits pods
// without known usage.
func PodMetrics(pods []serve.PodUsage) podMetricsList {
	list := podMetricsList{TypeMeta: metav1.TypeMeta{APIVersion: metricsVersion, Kind: "PodMetricsList"}, Items: []podMetric{}}
	for _, p := range pods {
		one := podMetric{TypeMeta: metav1.TypeMeta{APIVersion: metricsVersion, Kind: "PodMetrics"},
			ObjectMeta: metav1.ObjectMeta{Namespace: p.ID.Namespace, Name: p.ID.Name, Labels: p.Labels, CreationTimestamp: metav1.NewTime(p.Time)},
			Timestamp:  metav1.NewTime(p.Time), Containers: []containerMetrics{}}
		if p.Window > 0 {
			one.Window = &metav1.Duration{Duration: p.Window}
		}
		for _, c := range p.Containers {
			usage := corev1.ResourceList{}
			if c.NanoCores != nil {
				usage[corev1.ResourceCPU] = *resource.NewScaledQuantity(int64(*c.NanoCores), resource.Nano)
			}
			if c.WorkingSetBytes != nil {
				usage[corev1.ResourceMemory] = *resource.NewQuantity(int64(*c.WorkingSetBytes), resource.BinarySI)
			}
			one.Containers = append(one.Containers, containerMetrics{c.Name, usage})
		}
		list.Items = append(list.Items, one)
	}
	return list
}

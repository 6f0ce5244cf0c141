package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/internal/identity"
)

// ProgressDeadline returns the value of the annotation podrun.dev/progress-deadline of a pod or, if the pod has none, of
// the workload that defines it. The argument setting is the value if neither has the annotation. 0 means no deadline.
func ProgressDeadline(pod *corev1.Pod, d *Definition, setting time.Duration) (time.Duration, error) {
	text, has := pod.Annotations[identity.AnnotationProgressDeadline]
	if !has {
		text, has = d.meta().Annotations[identity.AnnotationProgressDeadline]
	}
	if !has {
		return setting, nil
	}
	deadline, err := time.ParseDuration(text)
	if err != nil || deadline < 0 {
		return 0, fmt.Errorf("%q is not a duration such as 2m; 0 means no deadline", text)
	}
	return deadline, nil
}

// MinReady returns minReadySeconds of the workload; 0 for a Pod.
func (d *Definition) MinReady() time.Duration {
	var o struct {
		Spec struct {
			MinReadySeconds int32 `json:"minReadySeconds"`
		} `json:"spec"`
	}
	if d == nil || d.Workload == nil || json.Unmarshal(d.Workload, &o) != nil {
		return 0
	}
	return time.Duration(max(o.Spec.MinReadySeconds, 0)) * time.Second
}

// Hash returns a hash of the definition of a pod: of the pod, and of the objects to which it refers with their content.
// It covers neither what podrun sets for this host nor what is not part of a revision (SameRevision). It returns "" if the
// Secrets are lost. Another release may return another hash, because it may set other defaults.
func (c Checkpoint) Hash() string {
	if c.Pod == nil || c.SecretsLost {
		return ""
	}
	pod := ofRevision(c.Pod).DeepCopy()
	pod.ObjectMeta = metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, Labels: pod.Labels, Annotations: withoutMark(pod.Annotations)}
	pod.Spec.NodeName, pod.Status = "", corev1.PodStatus{}
	if len(pod.Annotations) == 0 {
		pod.Annotations = nil
	}
	c.Pod, c.Images, c.Definition = pod, nil, nil
	data, err := c.Marshal()
	if err != nil {
		return "" // the types of the API can always be encoded
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

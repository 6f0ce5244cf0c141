package view

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/internal/identity"
)

// Desired returns the number of pods that a workload must have. If podrun does not honour the number in
// the specification, it runs one pod.
func Desired(o metav1.Object, specified *int32, running int32) int32 {
	if specified == nil || o.GetAnnotations()[identity.AnnotationReplicas] != identity.ReplicasHonour {
		return running
	}
	return *specified
}

func Ready(n, of int32) string { return fmt.Sprintf("%d/%d", n, of) }

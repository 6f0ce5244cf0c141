package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UID is the pod's own UID, or the one that StaticUID makes.
func UID(pod *corev1.Pod, nodeName, rootDir string) string {
	if pod.UID != "" {
		return string(pod.UID)
	}
	return StaticUID(pod, nodeName, rootDir)
}

// StaticUID is a kubelet's kind of UID for a pod of a file: 32 hex characters
// of a hash of the defaulted object (with that the names of the ConfigMaps and
// Secrets that it uses, not their content), its namespace and name, the node's
// name and rootDir, which is host.Facts.RootDir: pods of the same file in different
// root directories share neither a cgroup nor a log directory. It is empty for the
// default root directory, whose UIDs are those of releases that did not hash it. The
// same file is the same pod after a crash, too. It does not depend on metadata.uid,
// spec.nodeName or status, nor on the order of maps.
func StaticUID(pod *corev1.Pod, nodeName, rootDir string) string {
	same := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, Labels: pod.Labels, Annotations: pod.Annotations},
		Spec:       pod.Spec,
	}
	same.Spec.NodeName = ""
	sum := sha256.New()
	for _, name := range []string{pod.Namespace, pod.Name, nodeName} {
		io.WriteString(sum, name+"\x00") // a hash takes all
	}
	if rootDir != "" {
		io.WriteString(sum, "rootDir="+rootDir+"\x00")
	}
	if err := json.NewEncoder(sum).Encode(&same); err != nil {
		// Not for a pod that was decoded: only values that JSON has not fail.
		io.WriteString(sum, err.Error())
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UID returns the UID that the pod specifies, or StaticUID if it specifies none.
func UID(pod *corev1.Pod, nodeName, rootDir string) string {
	if pod.UID != "" {
		return string(pod.UID)
	}
	return StaticUID(pod, nodeName, rootDir)
}

// StaticUID returns a UID for a pod in a file, as a kubelet does for static pods. It has 32 hex
// characters of a hash of the object with its defaults, its namespace and name, the node's name,
// and rootDir. The object includes the names of the ConfigMaps and Secrets that the pod uses, but
// not their content. rootDir is host.Facts.RootDir. With it, pods from the same file in different
// root directories share neither a cgroup nor a log directory. rootDir is "" for the default root directory, so that
// the UIDs there are the same as in releases that did not hash the root directory. The same file always results in
// the same UID, even after a crash. The UID does not depend on metadata.uid, spec.nodeName or status, or on the order
// of maps.
func StaticUID(pod *corev1.Pod, nodeName, rootDir string) string {
	same := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, Labels: pod.Labels, Annotations: pod.Annotations},
		Spec:       pod.Spec,
	}
	same.Spec.NodeName = ""
	sum := sha256.New()
	for _, name := range []string{pod.Namespace, pod.Name, nodeName} {
		// Writing to a hash cannot fail.
		io.WriteString(sum, name+"\x00")
	}
	if rootDir != "" {
		io.WriteString(sum, "rootDir="+rootDir+"\x00")
	}
	if err := json.NewEncoder(sum).Encode(&same); err != nil {
		// This cannot happen for a decoded pod, because marshaling fails only for values that JSON
		// cannot represent.
		io.WriteString(sum, err.Error())
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

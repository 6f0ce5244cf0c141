// Package identity defines the names of a pod and of everything that belongs to it: its UID, the
// labels of its sandboxes and containers, and its paths on this host. It does no I/O.
package identity

import (
	"fmt"
)

// Pod identifies one pod. Its UID has 1 to 128 characters and is safe as a part of a path.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// String returns namespace/name, like kubectl.
func (p Pod) String() string { return p.Namespace + "/" + p.Name }

// Ref returns name_namespace(uid), like the kubelet's messages.
func (p Pod) Ref() string { return fmt.Sprintf("%s_%s(%s)", p.Name, p.Namespace, p.UID) }

// Args returns the arguments with which a command selects the pod: its name and its namespace, unless that is the
// default namespace.
func (p Pod) Args() string {
	if p.Namespace == "default" {
		return p.Name
	}
	return p.Name + " -n " + p.Namespace
}

// Labels returns the labels of every sandbox of the pod.
func (p Pod) Labels() map[string]string {
	return map[string]string{
		LabelPodName:      p.Name,
		LabelPodNamespace: p.Namespace,
		LabelPodUID:       p.UID,
	}
}

// maxUID is the maximum length of a UID, in bytes.
const maxUID = 128

// SafeUID reports whether a UID from a manifest may become part of a path that root owns. It
// must have 1 to 128 letters, digits and dashes, and must not begin with a dash. The API
// accepts any string, including "../../../etc".
func SafeUID(uid string) bool {
	if uid == "" || len(uid) > maxUID || uid[0] == '-' {
		return false
	}
	for i := range len(uid) {
		c := uid[i]
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '-') {
			return false
		}
	}
	return true
}

// SafeName reports whether a name is valid for a pod or a namespace, and safe as a part of a path.
// It must consist of DNS labels (RFC 1123), and must not begin with a dot.
func SafeName(name string) bool {
	if name == "" || len(name) > 253 || name[0] == '.' {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || c == '-' || c == '.') {
			return false
		}
	}
	return true
}

package identity

import "strings"

// LockedPod parses a file name of the form NAMESPACE_NAME, such as that of a pod's lock.
func LockedPod(file string) (Pod, bool) {
	namespace, name, ok := strings.Cut(file, "_")
	return Pod{Namespace: namespace, Name: name}, ok
}

// NamedPod parses the name of a record, lock or claim into the namespace and the name of its object. It
// returns false for any other name, such as that of a temporary file.
func NamedPod(file string) (Pod, bool) {
	id, ok := LockedPod(file)
	if !ok || id.Namespace == "" || id.Name == "" || id.Namespace[0] == '.' {
		return id, false
	}
	// The name of a claim ends with _ and random characters.
	id.Name, _, _ = strings.Cut(id.Name, "_")
	return id, id.Name != ""
}

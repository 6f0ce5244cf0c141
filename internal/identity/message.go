package identity

// ObjectName returns a pod's name for messages. If the pod's namespace is unknown, it uses the
// UID.
func ObjectName(id Pod) string {
	if id.Namespace == "" {
		return "pod " + id.UID
	}
	return "pod " + id.String()
}

// DeleteHint returns a hint with the command that removes a pod. If the pod's namespace is
// unknown, the command uses the UID.
func DeleteHint(id Pod) string {
	if id.Namespace == "" {
		return "`podrun delete " + id.UID + "` removes the pod"
	}
	return "`podrun delete -n " + id.Namespace + " " + id.Name + "` removes the pod"
}

package identity

// ObjectOf names a pod in messages, one whose namespace is not known by its UID.
func ObjectOf(id Pod) string {
	if id.Namespace == "" {
		return "pod " + id.UID
	}
	return "pod " + id.String()
}

// DeleteHint is the command that removes a pod. One whose namespace is not known
// is deleted by its UID.
func DeleteHint(id Pod) string {
	if id.Namespace == "" {
		return "`podrun delete " + id.UID + "` removes the pod"
	}
	return "`podrun delete -n " + id.Namespace + " " + id.Name + "` removes the pod"
}

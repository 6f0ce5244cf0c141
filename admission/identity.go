package admission

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
)

// maxFileName is the maximum length of a file name on Linux, in bytes.
const maxFileName = 255

// checkUID refuses a UID that is not safe in a path. The UID names a directory that root owns,
// and the API accepts "../../etc".
func checkUID(q question) problem.List {
	if identity.SafeUID(string(q.pod.UID)) {
		return nil
	}
	return list(problem.Problem{
		Field: "metadata.uid", Reason: "FieldValueInvalid",
		Message: fmt.Sprintf("%q is not safe in a path", q.pod.UID),
		Hint:    "use at most 128 letters, digits and dashes, or remove the uid",
	})
}

// checkNames refuses names that the API does not allow. podrun validates the pods of manifests, but not those of an API
// server, which may be hostile.
func checkNames(q question) problem.List {
	var out problem.List
	check := func(field, name string, valid bool) {
		if !valid {
			out = append(out, problem.Problem{Field: field, Reason: "FieldValueInvalid", Kind: problem.Manifest, Message: fmt.Sprintf("%q is not a valid name", name)})
		}
	}
	label := func(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }
	check("metadata.namespace", q.pod.Namespace, label(q.pod.Namespace))
	check("metadata.name", q.pod.Name, identity.SafeName(q.pod.Name))
	eachContainer(q.pod, func(field string, c *corev1.Container) { check(field+".name", c.Name, label(c.Name)) })
	for i, v := range q.pod.Spec.Volumes {
		check(fmt.Sprintf("spec.volumes[%d].name", i), v.Name, label(v.Name))
	}
	return out
}

// checkUIDOwner refuses the UID of another pod. The other pod may be podrun's, another program's,
// or part of the same command. podrun and the runtime find a pod's sandbox, directories and cgroup
// by the UID, so the two pods would share them.
func checkUIDOwner(q question) problem.List {
	for _, p := range slices.Concat(q.facts.Pods, q.admitted) {
		if p.UID != string(q.pod.UID) || p.Namespace == q.pod.Namespace && p.Name == q.pod.Name {
			continue
		}
		return list(problem.Problem{
			Field: "metadata.uid", Reason: "AlreadyExists",
			Message: fmt.Sprintf("%q is the UID of pod %s/%s", q.pod.UID, p.Namespace, p.Name),
			Hint:    "remove metadata.uid from the manifest, so that podrun generates a UID",
		})
	}
	return nil
}

// checkPathLengths refuses pods whose log directory, <namespace>_<name>_<uid>, would have a name
// that is too long. A kubelet retries such a pod forever.
func checkPathLengths(q question) problem.List {
	n := len(q.pod.Namespace) + len(q.pod.Name) + len(q.pod.UID) + 2
	if n <= maxFileName {
		return nil
	}
	return list(problem.Problem{
		Field: "metadata.name", Reason: "FieldValueTooLong",
		Message: fmt.Sprintf("the log directory's name, made of namespace, name and uid, has %d characters, more than the limit of %d", n, maxFileName),
		Hint:    fmt.Sprintf("shorten the name by %d", n-maxFileName),
	})
}

// checkName refuses the name of a running pod that belongs to another program or another root
// directory. A client that selects the pod by its labels would find two pods.
func checkName(q question) problem.List {
	for _, p := range q.facts.Pods {
		if p.RootDir != "" && p.Namespace == q.pod.Namespace && p.Name == q.pod.Name {
			return list(problem.Problem{
				Field: "metadata.name", Reason: "AlreadyExists",
				Message: fmt.Sprintf("pod %s/%s exists in another podrun root directory on this host (uid %s)", p.Namespace, p.Name, p.UID),
				Hint:    fmt.Sprintf("delete that pod with --root-dir %s, or choose another name", p.RootDir),
			})
		}
		if !p.Managed && p.Ready && p.Namespace == q.pod.Namespace && p.Name == q.pod.Name {
			return list(problem.Problem{
				Field: "metadata.name", Reason: "AlreadyExists",
				Message: fmt.Sprintf("another program runs a pod %s/%s on this host (uid %s)", p.Namespace, p.Name, p.UID),
				Hint:    "delete that pod with the program that created it, or choose another name",
			})
		}
	}
	return nil
}

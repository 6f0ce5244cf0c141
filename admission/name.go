package admission

import (
	"fmt"
	"slices"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
)

// maxFileName is the longest name of a file or directory on Linux.
const maxFileName = 255

// checkUID refuses a UID that would not be a safe part of a path: it becomes a
// directory owned by root, and the API accepts "../../etc".
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

// checkUIDOwner refuses a UID that another pod has: podrun and the runtime find a
// pod's sandbox, directories and control group by its UID, so that the pod would
// join that one's. It may be of any owner, or of the same command.
func checkUIDOwner(q question) problem.List {
	for _, p := range slices.Concat(q.facts.Pods, q.arrived) {
		if p.UID != string(q.pod.UID) || p.Namespace == q.pod.Namespace && p.Name == q.pod.Name {
			continue
		}
		return list(problem.Problem{
			Field: "metadata.uid", Reason: "AlreadyExists",
			Message: fmt.Sprintf("%q is the UID of pod %s/%s", q.pod.UID, p.Namespace, p.Name),
			Hint:    "remove metadata.uid from the manifest: podrun generates one",
		})
	}
	return nil
}

// checkPathLengths refuses names that are too long for the name of the pod's log
// directory, <namespace>_<name>_<uid>: the kubelet retries without limit.
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

// checkName refuses the name of a live pod that another program runs:
// whoever looks for that pod by its labels would find two.
func checkName(q question) problem.List {
	for _, p := range q.facts.Pods {
		if p.RootDir != "" && p.Namespace == q.pod.Namespace && p.Name == q.pod.Name {
			return list(problem.Problem{
				Field: "metadata.name", Reason: "AlreadyExists",
				Message: fmt.Sprintf("pod %s/%s of a podrun with another root directory exists on this host (uid %s)", p.Namespace, p.Name, p.UID),
				Hint:    fmt.Sprintf("remove it with --root-dir %s, or choose another name", p.RootDir),
			})
		}
		if !p.Managed && p.Ready && p.Namespace == q.pod.Namespace && p.Name == q.pod.Name {
			return list(problem.Problem{
				Field: "metadata.name", Reason: "AlreadyExists",
				Message: fmt.Sprintf("pod %s/%s of another program runs on this host (uid %s)", p.Namespace, p.Name, p.UID),
				Hint:    "remove it with the program that created it, or choose another name",
			})
		}
	}
	return nil
}

// checkKubelet refuses to run on a host with a kubelet that would remove podrun's pods
// (it uses the same runtime) or their cgroups (it uses the same cgroup root).
func checkKubelet(q question) problem.List {
	k := q.facts.Kubelet
	if k == nil || q.options.AllowKubelet {
		return nil
	}
	what, hint := "", ""
	switch {
	case k.SharesRuntime:
		what, hint = "the same runtime and would remove the pod", "stop it, use another runtime, or accept the risk with --allow-kubelet"
	case k.SharesCgroups && q.settings.CgroupsPerQOS && sameRoot(k.CgroupRoot, q.settings.CgroupRoot):
		what, hint = "the same cgroup root and would remove the pod's cgroup", "set a separate --cgroup-root for podrun, or accept the risk with --allow-kubelet"
	default:
		return nil
	}
	return list(problem.Problem{
		Reason:  "KubeletRunning",
		Message: fmt.Sprintf("a kubelet runs on this host (process %d) that uses %s", k.PID, what),
		Hint:    hint,
	})
}

package manifest

import (
	corev1 "k8s.io/api/core/v1"
)

// ChangeCause is the annotation that describes the cause of a revision in a pod's history, as in
// kubectl.
const ChangeCause = "kubernetes.io/change-cause"

// SameRevision reports whether two definitions of a pod are the same revision in the pod's
// history. They are if they differ at most in the change cause and the ephemeral containers,
// which are not part of a template.
func SameRevision(a, b *corev1.Pod) bool {
	return len(Changes(ofRevision(a), ofRevision(b))) == 0
}

// ofRevision returns the part of a definition that distinguishes revisions.
func ofRevision(pod *corev1.Pod) *corev1.Pod {
	out := *WithEphemeral(pod, nil)
	if _, has := out.Annotations[ChangeCause]; has {
		out.Annotations = map[string]string{}
		for k, v := range pod.Annotations {
			if k != ChangeCause {
				out.Annotations[k] = v
			}
		}
	}
	return &out
}

// Without returns c without the objects that next also contains. It compares objects by name.
func (c Checkpoint) Without(next Checkpoint) Checkpoint {
	there := next.Objects()
	out := Checkpoint{Pod: c.Pod, Definition: c.Definition, InMemory: c.InMemory, SecretsLost: c.SecretsLost}
	for _, m := range c.ConfigMaps {
		if there.ConfigMaps[m.Namespace+"/"+m.Name] == nil {
			out.ConfigMaps = append(out.ConfigMaps, m)
		}
	}
	for _, s := range c.Secrets {
		if there.Secrets[s.Namespace+"/"+s.Name] == nil {
			out.Secrets = append(out.Secrets, s)
		}
	}
	for _, p := range c.Claims {
		if there.Claims[p.Namespace+"/"+p.Name] == nil {
			out.Claims = append(out.Claims, p)
		}
	}
	for _, v := range c.Volumes {
		if there.Volumes[v.Name] == nil {
			out.Volumes = append(out.Volumes, v)
		}
	}
	if r := c.RuntimeClass; r != nil && there.RuntimeClasses[r.Name] == nil {
		out.RuntimeClass = r
	}
	return out
}

// Editable returns the definition of a pod on this host in the form that commands change. Its
// author would recognize it; it has defaults, apiVersion and kind, and Load accepts it. It
// contains no ephemeral containers, and nothing that podrun sets for this host.
func Editable(pod *corev1.Pod) *corev1.Pod {
	out := Authored(WithEphemeral(pod, nil))
	if HasPreferredUserNamespace(pod) {
		out.Spec.HostUsers = nil
	}
	return out
}

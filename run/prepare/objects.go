package prepare

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/container"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/volume"
)

// bindClaims returns the objects with their claims bound to their volumes. Some claims that the pods use
// match no volume. If claimDir is not empty, bindClaims binds each of these claims to a directory below
// claimDir.
func bindClaims(o *manifest.Objects, claimDir string) *manifest.Objects {
	out := *o
	out.Claims = volume.Bind(o.Claims, o.Volumes)
	if claimDir == "" {
		return &out
	}
	out.Volumes = map[string]*corev1.PersistentVolume{}
	maps.Copy(out.Volumes, o.Volumes)
	for _, p := range o.Pods {
		for _, v := range p.Object.Spec.Volumes {
			if v.PersistentVolumeClaim == nil {
				continue
			}
			name := v.PersistentVolumeClaim.ClaimName
			key := p.Object.Namespace + "/" + name
			claim := out.Claims[key]
			if claim != nil && out.Volumes[claim.Spec.VolumeName] != nil {
				continue
			}
			// If Provision fails, volume.New reports the problem.
			if claim, pv, err := volume.Provision(claimDir, p.Object.Namespace, name, claim); err == nil {
				out.Claims[key], out.Volumes[pv.Name] = claim, pv
			}
		}
	}
	return &out
}

// forPod returns the input for one pod. Volumes keep the names that they have in an existing pod of the same
// name. If KeepReferred is set, forPod adds the objects of the existing pod that the input does not contain,
// and kept is a warning that names them.
func (in Input) forPod(pod *corev1.Pod) (of Input, kept problem.List) {
	for _, h := range in.Existing {
		if h.Pod == nil || h.ID.Namespace != pod.Namespace || h.ID.Name != pod.Name {
			continue
		}
		in.Objects = h.Made.KeepServedNames(in.Objects)
		if !in.KeepReferred || h.Ending {
			continue
		}
		var names []string
		if in.Objects, names = h.Made.KeepReferred(pod, in.Objects); len(names) > 0 {
			kept = problem.List{KeptWarning(names)}
		}
	}
	return in, kept
}

// KeptWarning returns the warning for objects that KeepReferred added to the input.
func KeptWarning(names []string) problem.Problem {
	return problem.Problem{Reason: "ObjectKept", Warning: true,
		Message: strings.Join(names, ", ") + " not in the input: the pod keeps the current data",
		Hint:    "to change the data, add the object to the input, or name its file with --configmap or --secret"}
}

// claimWarnings warns about a pod's claims that are bound to directories, but are not in the input: their
// names may be misspelled.
func claimWarnings(pod *corev1.Pod, input, bound *manifest.Objects) problem.List {
	var out problem.List
	for i, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		key := pod.Namespace + "/" + v.PersistentVolumeClaim.ClaimName
		if claim := bound.Claims[key]; input.Claims[key] == nil && claim != nil {
			out = append(out, problem.Problem{Field: fmt.Sprintf("spec.volumes[%d].persistentVolumeClaim.claimName", i),
				Reason: "ClaimNotFound", Warning: true,
				Message: fmt.Sprintf("persistentvolumeclaim %q is not in the input: podrun uses the directory that is bound to it, %s", claim.Name, bound.Volumes[claim.Spec.VolumeName].Spec.Local.Path),
				Hint:    "add it to the input"})
		}
	}
	return out
}

// objectChanges compares the objects to which a pod refers with those of the existing pod, and adds the
// differences to t. A change of content is an update if running containers receive the new content
// without a restart. The result rebuilt is true if a claim is bound to a different volume: podrun must
// then replace the pod.
func (t *Target) objectChanges(was ExistingPod, pod *corev1.Pod, objects *manifest.Objects) (rebuilt bool) {
	made := was.Made
	after := manifest.Referred(pod, objects)
	if made.SecretsLost && was.Ended {
		made.Secrets = after.Secrets // the pod no longer requires the Secrets
	}
	live, bound, frozen := made.Diff(after)
	t.live = live
	t.frozen = frozen
	t.Changes = slices.Concat(t.Changes, live, bound)
	return len(bound) > 0
}

// objectProblems returns the problems of an update that changes ConfigMaps and Secrets. Immutable objects
// must not change. Environment variables of running containers keep their old values.
func (t Target) objectProblems(was ExistingPod) problem.List {
	if t.Change != ChangeUpdate {
		return nil
	}
	var out problem.List
	for _, name := range t.frozen {
		out = append(out, problem.Problem{Reason: "FieldValueForbidden", Kind: problem.Manifest,
			Message: name + ": data is immutable when `immutable` is set",
			Hint:    "create an object with another name, or replace the pod with --force"})
	}
	// podrun does not know what changed, or no container is running.
	if len(t.live) == 0 || was.Made.SecretsLost || was.Ended {
		return out
	}
	old := was.Made.Objects()
	configMaps, secrets := ofNamespace(old.ConfigMaps, t.Plan.ID.Namespace), ofNamespace(old.Secrets, t.Plan.ID.Namespace)
	for _, c := range lifecycle.SpecContainers(t.Plan.Pod) {
		before := lifecycle.FindContainer(was.Pod, c.Container.Name).Container
		plan := t.Plan.Container(c.Container.Name)
		if plan == nil || before == nil || container.Hash(before) != container.Hash(c.Container) {
			// the container is new, so it has the new values
			continue
		}
		if names := plan.EnvChanges(configMaps, secrets); len(names) > 0 {
			out = append(out, problem.Problem{Field: c.Field, Reason: "RestartRequired", Warning: true,
				Message: fmt.Sprintf("container %s keeps the old value of %s until it is restarted", c.Container.Name, strings.Join(names, ", ")),
				Hint:    t.restartHint()})
		}
		for i, m := range c.Container.VolumeMounts {
			if from := t.changedSource(m); from != "" {
				out = append(out, problem.Problem{Field: fmt.Sprintf("%s.volumeMounts[%d]", c.Field, i), Reason: "RestartRequired", Warning: true,
					Message: fmt.Sprintf("container %s keeps the old content of %s until it is restarted: a subPath mount does not receive updates of %s", c.Container.Name, m.MountPath, from),
					Hint:    t.restartHint()})
			}
		}
	}
	return out
}

func (t Target) restartHint() string {
	return fmt.Sprintf("run 'podrun restart %s -n %s' to use the new values", t.Plan.ID.Name, t.Plan.ID.Namespace)
}

// changedSource returns the changed object from which m mounts a file or directory with a subPath,
// or "" if there is none. Such a mount still shows the old content after the volume has been
// updated.
func (t Target) changedSource(m corev1.VolumeMount) string {
	if m.SubPath == "" && m.SubPathExpr == "" {
		return ""
	}
	at := slices.IndexFunc(t.Plan.Pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
	if at < 0 {
		return ""
	}
	of := manifest.Referred(&corev1.Pod{
		ObjectMeta: t.Plan.Pod.ObjectMeta,
		Spec:       corev1.PodSpec{Volumes: t.Plan.Pod.Spec.Volumes[at : at+1]},
	}, t.Plan.Checkpoint.Objects())
	for _, c := range of.ConfigMaps {
		if name := "ConfigMap " + c.Namespace + "/" + c.Name; slices.Contains(t.live, name) {
			return name
		}
	}
	for _, s := range of.Secrets {
		if name := "Secret " + s.Namespace + "/" + s.Name; slices.Contains(t.live, name) {
			return name
		}
	}
	return ""
}

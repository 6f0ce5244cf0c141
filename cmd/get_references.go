package cmd

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cmd/apikind"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
)

// ofPods returns pods as objects that get prints.
func ofPods(pods []corev1.Pod) (out []found) {
	for i := range pods {
		out = append(out, found{kind: apikind.Pod, Object: &pods[i], meta: &pods[i], pod: &pods[i]})
	}
	return out
}

// printWithReferences prints a List: first the objects to which the pods refer, then the given objects.
// If the objects include a workload, the List omits the workload's pod, so that applying the List
// changes nothing. It is an error if podrun has lost the data of a pod's Secrets, or cannot read the
// pod's checkpoint.
func (a *app) printWithReferences(e *run.Node, objects []found) error {
	referred := &manifest.Objects{}
	for _, o := range objects {
		pods := o.pods
		if o.kind == apikind.Pod {
			pods = []*corev1.Pod{o.pod}
		}
		for _, p := range pods {
			of, err := lookup.References(e, identity.Pod{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)})
			if err != nil {
				return err
			}
			referred.Add(of)
		}
	}
	for _, o := range objects {
		set, ok := o.Object.(*appsv1.StatefulSet)
		for i := 0; ok && i < len(set.Spec.VolumeClaimTemplates); i++ {
			for _, p := range o.pods {
				// its template defines this claim
				index, _ := manifest.ReplicaIndex(set.Name, p.Name)
				delete(referred.Claims, set.Namespace+"/"+manifest.ClaimName(set.Spec.VolumeClaimTemplates[i].Name, set.Name, index))
			}
		}
	}
	list := resourceList{APIVersion: "v1", Kind: "List", Items: referred.Resources()}
	for _, o := range objects {
		if o.lost != nil {
			return o.lost
		}
		if !isIn(referred, o) && !isDefinedIn(objects, o) {
			list.Items = append(list.Items, o.Object)
		}
	}
	return view.PrintData(a.raw.Out, a.output, list)
}

// isIn reports whether an object is a ConfigMap or Secret that the List already contains,
// because a pod refers to it.
func isIn(referred *manifest.Objects, o found) bool {
	key := o.meta.GetNamespace() + "/" + o.meta.GetName()
	switch o.kind {
	case "ConfigMap":
		return referred.ConfigMaps[key] != nil
	case "Secret":
		return referred.Secrets[key] != nil
	}
	return false
}

// isDefinedIn reports whether an object is a pod that a workload in objects defines.
func isDefinedIn(objects []found, o found) bool {
	return o.kind == apikind.Pod && slices.ContainsFunc(objects, func(w found) bool { return slices.Contains(w.pods, o.pod) })
}

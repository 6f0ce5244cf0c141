package inspect

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cmd/apikind"
	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
)

// ofPods returns pods as objects that get prints.
func ofPods(pods []corev1.Pod) (out []Object) {
	for i := range pods {
		out = append(out, Object{Kind: apikind.Pod, Object: &pods[i], Meta: &pods[i], pod: &pods[i]})
	}
	return out
}

// printWithReferences prints a List: first the objects to which the pods refer, then the given objects.
// If the objects include a workload, the List omits the workload's pod, so that applying the List
// changes nothing. It is an error if podrun has lost the data of a pod's Secrets, or cannot read the
// pod's checkpoint.
func printWithReferences(a *cli.App, node *run.Node, objects []Object) error {
	referred := &manifest.Objects{}
	for _, o := range objects {
		pods := o.pods
		if o.Kind == apikind.Pod {
			pods = []*corev1.Pod{o.pod}
		}
		for _, p := range pods {
			of, err := lookup.References(node, identity.Pod{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)})
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
	list := cli.ResourceList{APIVersion: "v1", Kind: "List", Items: referred.Resources()}
	for _, o := range objects {
		if o.lost != nil {
			return o.lost
		}
		if !isIn(referred, o) && !isDefinedIn(objects, o) {
			list.Items = append(list.Items, o.Object)
		}
	}
	return view.PrintData(a.Raw.Out, a.Output, list)
}

// isIn reports whether an object is a ConfigMap or Secret that the List already contains,
// because a pod refers to it.
func isIn(referred *manifest.Objects, o Object) bool {
	key := o.Meta.GetNamespace() + "/" + o.Meta.GetName()
	switch o.Kind {
	case "ConfigMap":
		return referred.ConfigMaps[key] != nil
	case "Secret":
		return referred.Secrets[key] != nil
	}
	return false
}

// isDefinedIn reports whether an object is a pod that a workload in objects defines.
func isDefinedIn(objects []Object, o Object) bool {
	return o.Kind == apikind.Pod && slices.ContainsFunc(objects, func(w Object) bool { return slices.Contains(w.pods, o.pod) })
}

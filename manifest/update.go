package manifest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sort"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	podapi "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	coredefaults "k8s.io/kubernetes/pkg/apis/core/v1"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
)

// Changes returns the paths at which two pods differ, sorted, and in the notation of their author
// (spec.containers[0].image, metadata.labels). It first applies this binary's defaults to both
// pods. Therefore, a default that is set in only one of them is not a difference, and an upgrade of
// podrun changes no pod. It ignores everything that the author did not write: the UID, nodeName,
// the status, the fields that an API server sets, and a default user namespace.
func Changes(before, after *corev1.Pod) []string {
	was, is := authored(before), authored(KeepUserNamespace(before, after))
	paths := changes(was, is)
	if len(paths) == 0 {
		return nil
	}
	// Also ignore fields that this binary drops from every manifest.
	if was, is = withoutDisabled(was), withoutDisabled(is); was != nil && is != nil {
		paths = changes(was, is)
	}
	return paths
}

func changes(before, after *corev1.Pod) []string {
	var paths []string
	differences("", jsonTree(before), jsonTree(after), &paths)
	sort.Strings(paths)
	return paths
}

// InPlace reports whether podrun can change an existing pod without replacing it. It can if an
// API server would accept the change as an update (ValidatePodUpdate: images,
// activeDeadlineSeconds, labels and annotations, more tolerations…), as a resize
// (ValidatePodResize: CPU and memory, KEP-1287), as additional ephemeral containers
// (ValidatePodEphemeralContainersUpdate), or as a combination of these.
func InPlace(before, after *corev1.Pod) bool {
	was, will, ok := internal(before, after)
	if !ok {
		return false
	}
	if len(EphemeralErrors(before, after)) > 0 {
		return false
	}
	will.Spec.EphemeralContainers = was.Spec.EphemeralContainers // already checked
	kept := keepResources(&will, &was)
	opts := podapi.GetValidationOptionsFromPodSpecAndMeta(&will.Spec, &was.Spec, &will.ObjectMeta, &was.ObjectMeta)
	opts.ResourceIsPod = true
	allowPrivileged()
	if len(corevalidation.ValidatePodUpdate(kept, &was, opts)) > 0 {
		return false
	}
	return equality.Semantic.DeepEqual(kept.Spec, will.Spec) || len(corevalidation.ValidatePodResize(&will, kept, opts)) == 0
}

// internal converts two pods to the form that the API's validation of an update requires. It
// returns false if one of them cannot be converted.
func internal(before, after *corev1.Pod) (was, will core.Pod, ok bool) {
	after = KeepUserNamespace(before, after)
	for pod, into := range map[*corev1.Pod]*core.Pod{before: &was, after: &will} {
		authored := authored(pod)
		// An update must identify the existing object.
		authored.UID = "u"
		authored.ResourceVersion = "1"
		authored.Spec.NodeName = before.Spec.NodeName
		if coredefaults.Convert_v1_Pod_To_core_Pod(authored, into, nil) != nil {
			return was, will, false
		}
		podapi.DropDisabledPodFields(into, nil) // like Changes
	}
	return was, will, true
}

// keepResources returns the pod with its previous resources. The result is the part of a change
// that an API server treats as an update, without the resize. It ignores a resize policy that
// has only the default. Defaulting adds this policy for each new resource of a container, and
// the API server's validation of a resize ignores it too.
func keepResources(will, was *core.Pod) *core.Pod {
	kept := will.DeepCopy()
	kept.Spec.Resources = was.Spec.Resources
	for _, list := range [][3][]core.Container{
		{kept.Spec.InitContainers, will.Spec.InitContainers, was.Spec.InitContainers},
		{kept.Spec.Containers, will.Spec.Containers, was.Spec.Containers},
	} {
		for i := range list[2] {
			if i >= len(list[0]) || list[0][i].Name != list[2][i].Name {
				break // validation refuses this
			}
			list[0][i].Resources = list[2][i].Resources
			if samePolicy(list[0][i].ResizePolicy, list[2][i].ResizePolicy) {
				list[0][i].ResizePolicy = list[2][i].ResizePolicy
				list[1][i].ResizePolicy = list[2][i].ResizePolicy
			}
		}
	}
	return kept
}

// samePolicy reports whether two resize policies are equal for CPU and memory.
func samePolicy(a, b []core.ContainerResizePolicy) bool {
	for _, name := range []core.ResourceName{core.ResourceCPU, core.ResourceMemory} {
		restarts := func(p core.ContainerResizePolicy) bool {
			return p.ResourceName == name && p.RestartPolicy == core.RestartContainer
		}
		if slices.ContainsFunc(a, restarts) != slices.ContainsFunc(b, restarts) {
			return false
		}
	}
	return true
}

// Authored returns the part of a pod that Changes compares, in a form that the pod's author
// would recognize. It has defaults, apiVersion and kind.
func Authored(pod *corev1.Pod) *corev1.Pod {
	out := authored(pod)
	if kept := withoutDisabled(out); kept != nil {
		out = kept
	}
	out.APIVersion = "v1"
	out.Kind = "Pod"
	return out
}

// authored returns the part of a pod that its author wrote or that defaulting adds. It omits
// the fields that podrun sets for this host.
func authored(pod *corev1.Pod) *corev1.Pod {
	out := &corev1.Pod{Spec: *pod.Spec.DeepCopy()}
	out.Namespace = pod.Namespace
	out.Name = pod.Name
	out.Labels = pod.Labels
	out.Annotations = withoutMark(pod.Annotations)
	out.Spec.NodeName = ""
	defaultPod(out)
	return out
}

// jsonTree returns the pod as decoded JSON.
func jsonTree(pod *corev1.Pod) any {
	data, err := json.Marshal(pod)
	if err != nil {
		// All types in a pod can be marshaled.
		panic(fmt.Sprintf("marshal a pod: %v", err))
	}
	var out any
	if err := json.Unmarshal(data, &out); err != nil {
		panic(fmt.Sprintf("read a pod back: %v", err))
	}
	return out
}

// differences appends the paths at which before and after differ. If two lists have different
// lengths, it reports them as a whole. It does the same with the maps in metadata, because their
// keys are not field names.
func differences(path string, before, after any, paths *[]string) {
	if reflect.DeepEqual(before, after) {
		return
	}
	mb, ok1 := before.(map[string]any)
	ma, ok2 := after.(map[string]any)
	if ok1 && ok2 && !slices.Contains([]string{"metadata.labels", "metadata.annotations"}, path) {
		for key := range union(mb, ma) {
			differences(join(path, key), mb[key], ma[key], paths)
		}
		return
	}
	lb, ok1 := before.([]any)
	la, ok2 := after.([]any)
	if ok1 && ok2 && len(lb) == len(la) {
		for i := range lb {
			differences(fmt.Sprintf("%s[%d]", path, i), lb[i], la[i], paths)
		}
		return
	}
	*paths = append(*paths, path)
}

func union(a, b map[string]any) map[string]bool {
	out := map[string]bool{}
	for k := range a {
		out[k] = true
	}
	for k := range b {
		out[k] = true
	}
	return out
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

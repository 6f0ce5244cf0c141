package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/podrun/podrun/internal/problem"
)

// unused maps kinds to their API groups. These kinds configure the cluster around a pod (access,
// scaling, authorization, admission). A pod runs in the same way without such objects, so Load
// skips them, with one warning for all of them.
var unused = map[string][]string{
	"Endpoints":                {""},
	"Namespace":                {""},
	"ServiceAccount":           {""},
	"EndpointSlice":            {"discovery.k8s.io"},
	"Ingress":                  {"networking.k8s.io", "extensions"},
	"IngressClass":             {"networking.k8s.io"},
	"Role":                     {"rbac.authorization.k8s.io"},
	"RoleBinding":              {"rbac.authorization.k8s.io"},
	"ClusterRole":              {"rbac.authorization.k8s.io"},
	"ClusterRoleBinding":       {"rbac.authorization.k8s.io"},
	"HorizontalPodAutoscaler":  {"autoscaling"},
	"PodDisruptionBudget":      {"policy"},
	"StorageClass":             {"storage.k8s.io"},
	"CSIDriver":                {"storage.k8s.io"},
	"CustomResourceDefinition": {"apiextensions.k8s.io"},
	"APIService":               {"apiregistration.k8s.io"},

	"ValidatingWebhookConfiguration":   {"admissionregistration.k8s.io"},
	"MutatingWebhookConfiguration":     {"admissionregistration.k8s.io"},
	"ValidatingAdmissionPolicy":        {"admissionregistration.k8s.io"},
	"ValidatingAdmissionPolicyBinding": {"admissionregistration.k8s.io"},
	"MutatingAdmissionPolicy":          {"admissionregistration.k8s.io"},
	"MutatingAdmissionPolicyBinding":   {"admissionregistration.k8s.io"},
}

// controls are kinds that restrict pods; see restricts.
var controls = []string{"NetworkPolicy", "LimitRange", "ResourceQuota"}

// restricts reports whether a kind restricts pods. Without such an object, a pod may do more than the object's author
// allows, so podrun skips the object only if SkipKinds names the kind itself. Network plugins have custom kinds for
// the same purpose, whose names all end in NetworkPolicy (CiliumNetworkPolicy of cilium.io, GlobalNetworkPolicy of
// projectcalico.org).
func restricts(kind string) bool {
	kind = strings.TrimSuffix(kind, "List")
	return slices.Contains(controls, kind) || strings.HasSuffix(kind, "NetworkPolicy")
}

// CustomKinds is the value in SkipKinds that means all custom resources.
const CustomKinds = "custom"

// isCustom reports whether an object is a custom resource: its API group must be a domain that
// is not Kubernetes' own. Kubernetes' groups have no dot (apps, batch), or are subdomains of
// k8s.io or kubernetes.io, which are reserved for reviewed APIs (KEP-2337). A group such as
// cluster.x-k8s.io is custom. A custom kind may have the name of a Kubernetes kind (Job of
// batch.volcano.sh/v1alpha1).
func isCustom(h header) bool {
	group := "." + h.group()
	return strings.Count(group, ".") > 1 && !strings.HasSuffix(group, ".k8s.io") && !strings.HasSuffix(group, ".kubernetes.io")
}

// group returns the object's API group; the core group is "".
func (h header) group() string {
	group, _, ok := strings.Cut(h.APIVersion, "/")
	if !ok {
		return ""
	}
	return group
}

// isUnused reports whether podrun always skips a kind.
func isUnused(h header) bool { return slices.Contains(unused[h.Kind], h.group()) }

// skips reports whether Load skips an object because of its kind or an option. It never skips a
// misspelled kind.
func (l *loader) skips(h header) bool {
	named := func(name string) bool {
		return slices.ContainsFunc(l.opts.SkipKinds, func(k string) bool { return strings.EqualFold(k, name) })
	}
	switch {
	case named(h.Kind), isUnused(h), h.Kind == "Service" && h.group() == "" && !l.opts.Services:
		return true
	case restricts(h.Kind):
		return false
	case isCustom(h):
		return l.opts.IgnoreUnknownKinds || named(CustomKinds)
	}
	_, known := kindNamed(h.Kind)
	return l.opts.IgnoreUnknownKinds && !known && misspelled(h) == ""
}

// skip records a skipped object.
func (l *loader) skip(h header) {
	if l.objects.Skipped == nil {
		l.objects.Skipped = map[string][]string{}
	}
	l.objects.Skipped[h.Kind] = append(l.objects.Skipped[h.Kind], h.Metadata.Name)
}

// maxSkippedNames is the maximum number of names per kind in the warning about skipped
// objects.
const maxSkippedNames = 5

// skippedWarning returns one warning that lists all skipped objects.
func skippedWarning(skipped map[string][]string) problem.Problem {
	var kinds []string
	for kind := range skipped {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for i, kind := range kinds {
		names := skipped[kind]
		more := ""
		if n := len(names) - maxSkippedNames; n > 0 {
			names, more = names[:maxSkippedNames], fmt.Sprintf(" and %d more", n)
		}
		if text := strings.Join(names, ", ") + more; text != "" {
			kinds[i] += " (" + text + ")"
		}
	}
	return problem.Problem{Reason: "SkippedKinds",
		Message: "podrun skips these objects, which it does not support: " + strings.Join(kinds, ", "),
		Warning: true}
}

// misspelled returns the kind that the author of an unknown kind probably meant; "" if there is
// none. It never suggests a kind for a custom resource, because podrun does not know the kinds of
// custom resources.
func misspelled(h header) string {
	if isCustom(h) {
		return ""
	}
	names := slices.Concat(kindNames, controls, slices.Collect(maps.Keys(unused)))
	slices.Sort(names)
	similar := nearest(h.Kind, names)
	if similar == h.Kind {
		return ""
	}
	return similar
}

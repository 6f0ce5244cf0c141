package manifest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podrun/podrun/problem"
)

// unused are the kinds that configure how a cluster has to reach, count or authorize pods, by
// name, with their API groups. A pod runs the same without them, so that Load skips
// them with one warning for all.
var unused = map[string][]string{
	"Service":                  {""},
	"Namespace":                {""},
	"ServiceAccount":           {""},
	"Ingress":                  {"networking.k8s.io", "extensions"},
	"Role":                     {"rbac.authorization.k8s.io"},
	"RoleBinding":              {"rbac.authorization.k8s.io"},
	"ClusterRole":              {"rbac.authorization.k8s.io"},
	"ClusterRoleBinding":       {"rbac.authorization.k8s.io"},
	"HorizontalPodAutoscaler":  {"autoscaling"},
	"PodDisruptionBudget":      {"policy"},
	"CustomResourceDefinition": {"apiextensions.k8s.io"},
}

// controls are the kinds that restrict pods. Without them a pod may do more than its
// author allows: only SkipKinds skips them.
var controls = []string{"NetworkPolicy", "LimitRange", "ResourceQuota"}

// isUnused reports whether podrun skips a kind in any case.
func isUnused(h header) bool {
	group, _, ok := strings.Cut(h.APIVersion, "/")
	if !ok {
		group = ""
	}
	return slices.Contains(unused[h.Kind], group)
}

// skips reports whether an object is skipped: because of its kind, or because of an
// option. A misspelled kind is never skipped.
func (l *loader) skips(h header) bool {
	if slices.ContainsFunc(l.opts.SkipKinds, func(k string) bool { return strings.EqualFold(k, h.Kind) }) || isUnused(h) {
		return true
	}
	_, known := kindNamed(h.Kind)
	known = known && !isForeign(h.APIVersion)
	return l.opts.IgnoreUnknownKinds && !known && misspelled(h.Kind) == "" && !slices.Contains(controls, h.Kind)
}

// skip notes an object that is skipped.
func (l *loader) skip(h header) {
	if l.objects.Skipped == nil {
		l.objects.Skipped = map[string][]string{}
	}
	l.objects.Skipped[h.Kind] = append(l.objects.Skipped[h.Kind], h.Metadata.Name)
}

// maxSkippedNames is the number of names that the warning about skipped objects
// lists of one kind.
const maxSkippedNames = 5

// skippedWarning names the objects that were skipped, all in one line.
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
	return problem.Problem{Reason: "SkippedKinds", Message: "podrun does not use these objects and skips them: " + strings.Join(kinds, ", "), Warning: true}
}

// misspelled is the kind that an unknown one was perhaps meant to be, or empty.
func misspelled(kind string) string {
	names := append(slices.Clone(kindNames), controls...)
	for name := range unused {
		names = append(names, name)
	}
	slices.Sort(names)
	similar := nearest(kind, names)
	if similar == kind || !strings.EqualFold(similar, kind) {
		return ""
	}
	return similar
}

package change

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/manifest"
)

// Difference describes the effect of a change of labels or annotations.
type Difference struct {
	Set     bool     // a value was added or changed
	Removed bool     // a value was removed
	Missing []string // keys to remove that the pod did not have
}

// CheckLabels reports values that a label cannot have.
func CheckLabels(p Pairs) error {
	for _, pair := range p.Set {
		if errs := validation.IsValidLabelValue(pair.Value); len(errs) > 0 {
			return fmt.Errorf("invalid label value: %q: %s", pair.Key+"="+pair.Value, strings.Join(errs, "; "))
		}
	}
	return nil
}

// Labels changes the labels of a pod. Without overwrite, it returns an error if a label already has
// another value.
func Labels(pod *corev1.Pod, p Pairs, overwrite bool) (*corev1.Pod, Difference, error) {
	if taken := p.taken(pod.Labels); !overwrite && len(taken) > 0 {
		return nil, Difference{}, fmt.Errorf("%s, and --overwrite is false", strings.Join(taken, "; "))
	}
	out := pod.DeepCopy()
	var d Difference
	out.Labels, d = p.change(pod.Labels)
	return out, d, nil
}

// Annotations changes the annotations of a pod. Without overwrite, it returns an error if an annotation
// other than the change cause already has another value.
func Annotations(pod *corev1.Pod, p Pairs, overwrite bool) (*corev1.Pod, Difference, error) {
	have := maps.Clone(pod.Annotations)
	delete(have, manifest.ChangeCause)
	if taken := p.taken(have); !overwrite && len(taken) > 0 {
		return nil, Difference{}, fmt.Errorf("--overwrite is false but found the following declared annotation(s): %s", strings.Join(taken, "; "))
	}
	out := pod.DeepCopy()
	var d Difference
	out.Annotations, d = p.change(pod.Annotations)
	return out, d, nil
}

// taken describes the keys that already have another value.
func (p Pairs) taken(have map[string]string) []string {
	var out []string
	for _, pair := range p.Set {
		if value, ok := have[pair.Key]; ok && value != pair.Value {
			out = append(out, fmt.Sprintf("'%s' already has a value (%s)", pair.Key, value))
		}
	}
	return out
}

// change returns the changed values.
func (p Pairs) change(have map[string]string) (map[string]string, Difference) {
	out, d := maps.Clone(have), Difference{}
	if out == nil {
		out = map[string]string{}
	}
	for _, pair := range p.Set {
		if value, ok := out[pair.Key]; !ok || value != pair.Value {
			out[pair.Key], d.Set = pair.Value, true
		}
	}
	for _, key := range p.Remove {
		if _, ok := out[key]; !ok {
			d.Missing = append(d.Missing, key)
			continue
		}
		delete(out, key)
		d.Removed = true
	}
	return out, d
}

// ListedPairs returns labels or annotations as lines KEY=VALUE, sorted.
func ListedPairs(values map[string]string) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		out = append(out, key+"="+values[key])
	}
	return out
}

// Restarted sets the annotation of a restart (identity.AnnotationRestartedAt).
func Restarted(pod *corev1.Pod, at time.Time) *corev1.Pod {
	out := pod.DeepCopy()
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	out.Annotations[identity.AnnotationRestartedAt] = at.Format(time.RFC3339)
	return out
}

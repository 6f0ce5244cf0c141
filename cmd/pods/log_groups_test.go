package pods

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/workflow"
	"github.com/podrun/podrun/internal/workflow/workflowtest"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
)

// TestLogGroups checks the groups of a pod whose containers start and end in the given order.
func TestLogGroups(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	pod := func(init []corev1.Container, names ...string) manifest.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod"}, Spec: corev1.PodSpec{InitContainers: init}}
		for _, name := range names {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name})
		}
		return manifest.Pod{Object: p}
	}
	second := pod(nil, "a")
	second.Object.Name = "other"
	inits := []corev1.Container{{Name: "one"}, {Name: "two"}, {Name: "side", RestartPolicy: &always}, {Name: "three"}}
	for name, c := range map[string]struct {
		pods []manifest.Pod
		do   string // "+" starts a container, "-" ends one
		want string
	}{
		"one container":     {[]manifest.Pod{pod(nil, "a")}, "+a -a", "Container a|end"},
		"init containers":   {[]manifest.Pod{pod(inits, "a")}, "+one -one +two -two +side +three -three +a -a -side", "Init container one|end|Init container two|end|Containers side, three, a|end"},
		"not yet started":   {[]manifest.Pod{pod(nil, "a", "b")}, "+a -a +b -b", "Containers a, b|end"},
		"restarted":         {[]manifest.Pod{pod(nil, "a")}, "+a -a +a -a", "Container a|end|Container a|end"},
		"late end":          {[]manifest.Pod{pod(inits[:2], "a")}, "+one +two -one -two", "Init container one|end|Init container two|end"},
		"several pods":      {[]manifest.Pod{pod(nil, "a"), second}, "+a +other/a -a -other/a", "2 pods|end"},
		"ephemeral, unlike": {[]manifest.Pod{pod(nil, "a")}, "+a +debugger -debugger -a", "Container a|end|Container debugger|end"},
	} {
		var out strings.Builder
		groups := newLogGroups(workflow.NewWriter(&out), &manifest.Objects{Pods: c.pods})
		open := map[string]*logGroup{}
		for word := range strings.FieldsSeq(c.do) {
			log := run.Log{Pod: identity.Pod{Namespace: "ns", Name: "pod"}, Container: word[1:]}
			if pod, container, ok := strings.Cut(word[1:], "/"); ok {
				log.Pod.Name, log.Container = pod, container
			}
			if word[0] == '+' {
				open[word[1:]] = groups.begin(log)
			} else {
				groups.end(open[word[1:]])
			}
		}
		commands, _ := workflowtest.Run(out.String())
		got := strings.NewReplacer("::group::", "", "::endgroup::", "end").Replace(strings.Join(commands, "|"))
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

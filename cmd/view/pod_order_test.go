package view

import (
	"bytes"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// orderedPods returns a pod b with an address and labels, and a failed pod a.
func orderedPods() []corev1.Pod {
	b := tablePod(corev1.PodRunning, nil, []corev1.ContainerStatus{restarted(runs("app"), 10, 0)})
	b.Name, b.Labels, b.Status.PodIP = "b", map[string]string{"app": "web", "example.com/tier": "front"}, "192.0.2.7"
	a := tablePod(corev1.PodFailed, nil, []corev1.ContainerStatus{restarted(runs("app"), 9, 0), runs("side")})
	a.Name = "a"
	return []corev1.Pod{b, a}
}

func TestSortPods(t *testing.T) {
	for by, want := range map[string]string{
		".metadata.name":   "a b",
		"{.metadata.name}": "a b",
		".status.containerStatuses[0].restartCount": "a b", // 9 before 10
		"{.status.podIP}": "a b", // none first
		"status.phase":    "a b",
		// Equal values keep the order of the input.
		".metadata.creationTimestamp": "b a",
	} {
		pods := orderedPods()
		if err := SortPods(pods, by); err != nil || pods[0].Name+" "+pods[1].Name != want {
			t.Errorf("sorted by %s: %s %s, %v; want %s", by, pods[0].Name, pods[1].Name, err, want)
		}
	}
	if err := SortPods(orderedPods(), "{.a"); err == nil {
		t.Error("a wrong expression is accepted")
	}
}

func TestTableColumns(t *testing.T) {
	var out bytes.Buffer
	o := TableOptions{Now: tableNow, LabelColumns: []string{"app", "example.com/tier"}, ShowLabels: true}
	if err := PodTable(&out, Screen{}, orderedPods(), o); err != nil {
		t.Fatal(err)
	}
	want := `NAME   READY   STATUS   RESTARTS   AGE   APP   TIER    LABELS
b      1/1     Running   10   90s   web   front   app=web,example.com/tier=front
`
	for i, line := range strings.Split(strings.TrimSpace(want), "\n") {
		if got := strings.Split(out.String(), "\n")[i]; strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(line), " ") {
			t.Errorf("line %d: %q, want %q", i+1, got, line)
		}
	}
	out.Reset()
	o.NoHeaders = true
	if err := PodTable(&out, Screen{}, orderedPods(), o); err != nil || strings.Contains(out.String(), "NAME") {
		t.Errorf("%q, %v: headings", out.String(), err)
	}
}

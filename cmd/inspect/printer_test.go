package inspect

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/cmd/view"
)

func printerPods() []corev1.Pod {
	one := tablePod(corev1.PodRunning, nil, []corev1.ContainerStatus{restarted(runs("app"), 10, 0)})
	one.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	one.Name, one.Labels, one.Status.PodIP = "b", map[string]string{"app": "web", "example.com/tier": "front"}, "192.0.2.7"
	one.Annotations = map[string]string{"encoded": "aGk="}
	one.Status.Message = "evil\x1b[2J\nline"
	two := tablePod(corev1.PodFailed, nil, []corev1.ContainerStatus{restarted(runs("app"), 9, 0), runs("side")})
	two.TypeMeta, two.Name = one.TypeMeta, "a"
	return []corev1.Pod{one, two}
}

func TestPrinters(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, test := range []struct {
		output, template string
		single           bool
		want, err        string
	}{
		{output: "jsonpath={.metadata.name}", single: true, want: "b"},
		{output: "jsonpath={.items[*].metadata.name}", want: "b a"},
		{output: `jsonpath={range .items[*]}{.metadata.name}{"\t"}{.status.phase}{"\n"}{end}`, want: "b\tRunning\na\tFailed\n"},
		{output: `jsonpath={.items[?(@.status.phase=="Failed")].metadata.name}`, want: "a"},
		{output: "jsonpath={.metadata.missing}", single: true, want: ""},
		{output: "jsonpath={.status.message}", single: true, want: "evil^[[2J\nline"},
		{output: "jsonpath", template: "{.metadata.name}", single: true, want: "b"},
		{output: "jsonpath-file=" + file("path", "{.metadata.name}"), single: true, want: "b"},
		{output: "go-template={{.metadata.name}}", single: true, want: "b"},
		{output: "go-template={{range .items}}{{.metadata.name}} {{end}}", want: "b a "},
		{output: "go-template={{(index .status.containerStatuses 0).restartCount}}", single: true, want: "10"},
		{output: "go-template={{base64decode .metadata.annotations.encoded}} {{exists . \"metadata\" \"none\"}} {{js .metadata.name}}", single: true, want: "hi false b"},
		{output: "go-template={{.none}}", single: true, want: "<no value>"},
		{output: "go-template-file=" + file("template", "{{.kind}}"), single: true, want: "Pod"},
		{output: "custom-columns=NAME:.metadata.name,IP:{.status.podIP},ALL:.status.containerStatuses[*].name", want: "NAME   IP          ALL\nb      192.0.2.7   app\na      <none>      app,side\n"},
		{output: `custom-columns=MESSAGE:.status.message`, single: true, want: "MESSAGE\nevil^[[2J\nline\n"},
		{output: `custom-columns=LABELS:.metadata.labels,STATUSES:.status.containerStatuses[*].state,UID:.metadata.uid`, want: "LABELS                                STATUSES                                                              UID\nmap[app:web example.com/tier:front]   map[running:map[startedAt:<nil>]]                                     <none>\n<none>                                map[running:map[startedAt:<nil>]],map[running:map[startedAt:<nil>]]   <none>\n"},
		{output: "custom-columns-file=" + file("columns", "NAME PHASE\n.metadata.name .status.phase\n"), single: true, want: "NAME   PHASE\nb      Running\n"},

		{output: "xml", err: "-o xml is not one of"},
		{output: "jsonpath", err: "no template is given"},
		{output: "jsonpath={.a", err: "unclosed action"},
		{output: "go-template={{.a", err: "unclosed action"},
		{output: "go-template={{.metadata.name.x}}", single: true, err: "can't evaluate field x"},
		{output: "custom-columns=NAME", err: "not of the form HEADING:FIELD"},
		{output: "custom-columns=NAME:", err: "is not a field"},
		{output: "custom-columns=" + strings.Repeat("A:.b,", 100) + "A:.b", err: "101 columns"},
		{output: "custom-columns-file=" + file("short", "NAME\n"), err: "a line of headings and a line of fields"},
		{output: "custom-columns-file=" + file("uneven", "NAME\n.a .b"), err: "1 headings and 2 fields"},
		{output: "jsonpath-file=" + filepath.Join(dir, "none"), err: "no such file"},
	} {
		var out bytes.Buffer
		a := cli.New(cli.Streams{Out: &out, Err: &out})
		f := &printFlags{template: test.template, allowMissed: true}
		p, err := f.printer(t.Context(), test.output)
		if err == nil {
			err = printTemplate(a, p, podObject(printerPods(), test.single))
		}
		switch {
		case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
			t.Errorf("-o %.60s: error %v, want one with %q", test.output, err, test.err)
		case test.err != "" && exit.Code(err) != exit.Usage:
			t.Errorf("-o %.60s: exit code %d", test.output, exit.Code(err))
		case test.err == "" && (err != nil || out.String() != test.want):
			t.Errorf("-o %s: %q, %v; want %q", test.output, out.String(), err, test.want)
		}
	}
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
		pods := printerPods()
		if err := view.SortPods(pods, by); err != nil || pods[0].Name+" "+pods[1].Name != want {
			t.Errorf("sorted by %s: %s %s, %v; want %s", by, pods[0].Name, pods[1].Name, err, want)
		}
	}
	if err := view.SortPods(printerPods(), "{.a"); err == nil {
		t.Error("a wrong expression is accepted")
	}
}

func TestTableColumns(t *testing.T) {
	var out bytes.Buffer
	o := view.TableOptions{Now: tableNow, LabelColumns: []string{"app", "example.com/tier"}, ShowLabels: true}
	if err := view.PodTable(&out, view.Screen{}, printerPods(), o); err != nil {
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
	if err := view.PodTable(&out, view.Screen{}, printerPods(), o); err != nil || strings.Contains(out.String(), "NAME") {
		t.Errorf("%q, %v: headings", out.String(), err)
	}
}

// Container statuses for these tests.
func runs(name string) corev1.ContainerStatus {
	yes := true
	return corev1.ContainerStatus{Name: name, Ready: true, Started: &yes, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
}

func restarted(c corev1.ContainerStatus, n int32, d time.Duration) corev1.ContainerStatus {
	c.RestartCount = n
	if d > 0 {
		c.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{FinishedAt: ago(d)}
	}
	return c
}

// tablePod returns a pod with these statuses: init containers, where a name that begins with s
// is a sidecar, and app containers.
func tablePod(phase corev1.PodPhase, inits, apps []corev1.ContainerStatus, conditions ...corev1.PodConditionType) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", CreationTimestamp: ago(90 * time.Second)}}
	always := corev1.ContainerRestartPolicyAlways
	for _, c := range inits {
		spec := corev1.Container{Name: c.Name}
		if strings.HasPrefix(c.Name, "s") {
			spec.RestartPolicy = &always
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, spec)
	}
	for _, c := range apps {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c.Name})
	}
	pod.Status = corev1.PodStatus{Phase: phase, InitContainerStatuses: inits, ContainerStatuses: apps}
	for _, kind := range conditions {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue})
	}
	return pod
}

package inspect

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/exit"
)

// printerPods returns a pod b with one container, and a failed pod a with two.
func printerPods() []corev1.Pod {
	pod := func(name string, phase corev1.PodPhase, restarts int32, containers ...string) corev1.Pod {
		p := corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
		p.Status.Phase = phase
		for _, c := range containers {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: c, RestartCount: restarts,
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
		}
		return p
	}
	b := pod("b", corev1.PodRunning, 10, "app")
	b.Labels, b.Status.PodIP = map[string]string{"app": "web", "example.com/tier": "front"}, "192.0.2.7"
	b.Annotations = map[string]string{"encoded": "aGk="}
	b.Status.Message = "evil\x1b[2J\nline"
	return []corev1.Pod{b, pod("a", corev1.PodFailed, 9, "app", "side")}
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

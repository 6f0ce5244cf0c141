package inspect

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/serve"
)

var viewNow = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// viewPods returns the data of a live view of get with pods of different restarts and ages.
func viewPods(names ...string) *podsView {
	v := &podsView{last: map[types.UID]event.Event{}}
	for i, name := range names {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(viewNow.Add(-time.Duration(i+1) * time.Minute))},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "app", RestartCount: int32(i), Ready: true,
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}}
		v.pods = append(v.pods, p)
		v.last[p.UID] = event.Event{Time: viewNow.Add(-5 * time.Second), Type: "Normal", Reason: "Started", Message: "Container started\x1b[2J of " + name}
	}
	return v
}

// firstWords returns the first word of each row of a live view.
func firstWords(lines []string) (out []string) {
	for _, line := range lines[2:] {
		out = append(out, strings.Fields(line)[0])
	}
	return out
}

func TestViewOfPods(t *testing.T) {
	v := viewPods("web", "app", "db")
	lines := viewLines(v, "name", viewNow, "", view.Screen{Width: 120}, 10)
	if want := "3 pods, sorted by name   q quit  n name  s status  r restarts  a age"; lines[0] != want {
		t.Errorf("title %q, want %q", lines[0], want)
	}
	if want := regexp.MustCompile(`^app +1/1 +Running +1 +2m +Started 5s ago: Container started\^\[\[2J of app$`); !want.MatchString(lines[2]) {
		t.Errorf("row %q", lines[2])
	}
	for order, want := range map[string]string{"name": "app db web", "restarts": "db app web", "age": "web app db", "status": "app db web"} {
		if got := strings.Join(firstWords(viewLines(v, order, viewNow, "", view.Screen{Width: 120}, 10)), " "); got != want {
			t.Errorf("by %s: %s, want %s", order, got, want)
		}
	}
}

func TestViewOfUsage(t *testing.T) {
	pods := viewPods("web", "app", "db")
	v := &usageView{last: pods.last, pods: map[types.UID]*corev1.Pod{}, flags: &topFlags{}}
	for i := range pods.pods {
		p := &pods.pods[i]
		v.pods[p.UID] = p
		cpu, memory := uint64(i+1)*1e6, uint64(10-i)<<20
		u := serve.Usage{NanoCores: &cpu, WorkingSetBytes: &memory}
		v.usage = append(v.usage, serve.PodUsage{ID: identity.Pod{Name: p.Name, UID: string(p.UID)}, Usage: u, Containers: []serve.ContainerUsage{{Name: "app", Usage: u}}})
	}
	for order, want := range map[string]string{"cpu": "db app web", "memory": "web app db", "restarts": "db app web"} {
		if got := strings.Join(firstWords(viewLines(v, order, viewNow, "", view.Screen{Width: 120}, 10)), " "); got != want {
			t.Errorf("by %s: %s, want %s", order, got, want)
		}
	}
	v.flags.containers = true
	lines := viewLines(v, "cpu", viewNow, "", view.Screen{Width: 120}, 10)
	if want := "3 pods with 6m CPU and 27Mi memory, sorted by cpu"; !strings.HasPrefix(lines[0], want) {
		t.Errorf("title %q, want %q", lines[0], want)
	}
	if want := regexp.MustCompile(`^db +app +3m +8Mi +2 +Started 5s ago: `); !want.MatchString(lines[2]) {
		t.Errorf("row %q", lines[2])
	}
}

// A live view fits every terminal; if there are more rows than lines, the last line counts them.
func TestViewFits(t *testing.T) {
	v := viewPods("a", "b", "c", "d", "a-pod-with-a-long-name", "f")
	for width := 1; width < 100; width++ {
		for height := 1; height < 12; height++ {
			lines := viewLines(v, "name", viewNow, "a note", view.Screen{Width: width}, height)
			if len(lines) > height {
				t.Fatalf("%d lines on %d", len(lines), height)
			}
			for _, line := range lines {
				if utf8.RuneCountInString(line) > width {
					t.Fatalf("a line of %d in %d columns: %q", utf8.RuneCountInString(line), width, line)
				}
			}
		}
	}
	lines := viewLines(v, "name", viewNow, "a note", view.Screen{Width: 80}, 6)
	if lines[4] != "and 4 more" || lines[5] != "a note" {
		t.Errorf("%q", lines)
	}
}

// emulate applies the control sequences of redraw to the lines of a terminal.
func emulate(t *testing.T, lines []string, sequences string) []string {
	t.Helper()
	if rest, ok := strings.CutPrefix(sequences, "\x1b[H\x1b[2J"); ok {
		lines, sequences = nil, rest
	}
	lines = slices.Clone(lines)
	for _, m := range regexp.MustCompile(`\x1b\[(\d+);1H([^\x1b]*)\x1b\[K`).FindAllStringSubmatch(sequences, -1) {
		row := 0
		fmt.Sscan(m[1], &row)
		for len(lines) < row {
			lines = append(lines, "")
		}
		lines[row-1] = m[2]
		sequences = strings.Replace(sequences, m[0], "", 1)
	}
	if sequences != "" {
		t.Errorf("not emulated: %q", sequences)
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// TestRedraw checks that only the lines that differ are written, so that the terminal does not
// flicker.
func TestRedraw(t *testing.T) {
	states := [][]string{nil, {"title", "a 1", "b 2"}, {"title", "a 1", "b 3"}, {"title", "b 3"}, {"title", "a 1", "b 3", "c 4"}}
	for i := range states {
		for j := 1; j < len(states); j++ {
			written := redraw(states[i], states[j])
			if got := emulate(t, states[i], written); !slices.Equal(got, states[j]) {
				t.Errorf("%q to %q: %q", states[i], states[j], got)
			}
		}
	}
	if written := redraw(states[1], states[2]); written != "\x1b[3;1Hb 3\x1b[K" {
		t.Errorf("%q", written)
	}
	if written := redraw(states[1], states[1]); written != "" {
		t.Errorf("unchanged lines were written: %q", written)
	}
}

// While a live view uses the terminal, podrun holds each distinct message once, and shows the
// last one.
func TestHeldMessages(t *testing.T) {
	var out strings.Builder
	m := &heldMessages{to: &out}
	m.hold()
	for range 3 {
		fmt.Fprint(m, "warning: first\nhint: x\n")
	}
	if out.String() != "" || m.last() != "warning: first" {
		t.Errorf("%q, last %q", out.String(), m.last())
	}
	m.release()
	fmt.Fprint(m, "second\n")
	if want := "warning: first\nhint: x\nsecond\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

package inspect

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/serve"
)

// viewData is the content of a live view at one time. Its methods are pure.
type viewData interface {
	// sorts returns the orders in which the user can sort the rows; the first is the default.
	sorts() []viewSort
	// title returns the view's first line, which summarizes the rows.
	title() string
	// table returns the headings, and the rows in the given order.
	table(order string, now time.Time, s view.Screen) [][]view.Cell
}

// viewSort is an order of the rows. The user selects it with a key.
type viewSort struct {
	key  byte
	name string
}

// viewLines returns the lines of a live view for a terminal of the given size: a title with the
// keys, and as many rows as fit. No line is wider than the terminal.
func viewLines(d viewData, order string, now time.Time, note string, s view.Screen, height int) []string {
	title := d.title() + ", sorted by " + order + "   q quit"
	for _, k := range d.sorts() {
		title += "  " + string(k.key) + " " + k.name
	}
	lines := []string{s.Line([]view.Cell{{Text: title, Hue: view.Plain}})}
	rows := d.table(order, now, s)
	var text bytes.Buffer
	_ = s.Table(&text, rows) // to memory
	body := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	room := height - len(lines)
	if note != "" {
		room--
	}
	if more := len(body) - room; more > 0 {
		body = body[:max(room-1, 0)]
		body = append(body, s.Line([]view.Cell{{Text: fmt.Sprintf("and %d more", more+1), Hue: view.Plain}}))
	}
	lines = append(lines, body...)
	if note != "" {
		lines = append(lines, s.Line([]view.Cell{{Text: view.OneLine(note), Hue: view.Yellow}}))
	}
	return lines[:min(len(lines), height)]
}

// redraw returns the control sequences (ECMA-48) that change the lines on a terminal. They write
// the lines that differ, and leave the others unchanged. nil means an empty terminal.
func redraw(before, after []string) string {
	var b strings.Builder
	if before == nil {
		b.WriteString("\x1b[H\x1b[2J")
	}
	for i := range max(len(before), len(after)) {
		old, line := "", ""
		if i < len(before) {
			old = before[i]
		}
		if i < len(after) {
			line = after[i]
		}
		if old != line {
			fmt.Fprintf(&b, "\x1b[%d;1H%s\x1b[K", i+1, line)
		}
	}
	return b.String()
}

// podsView shows pods with their status, as `get` does, and the last event of each.
type podsView struct {
	pods    []corev1.Pod
	last    map[types.UID]event.Event
	options view.TableOptions
}

func (v *podsView) sorts() []viewSort {
	return []viewSort{{'n', "name"}, {'s', "status"}, {'r', "restarts"}, {'a', "age"}}
}

func (v *podsView) title() string { return counted(len(v.pods), "pod") }

func (v *podsView) table(order string, now time.Time, s view.Screen) [][]view.Cell {
	pods := slices.Clone(v.pods)
	slices.SortStableFunc(pods, func(a, b corev1.Pod) int {
		byName := cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		x, y := view.Summarize(&a), view.Summarize(&b)
		switch order {
		case "status":
			return cmp.Or(cmp.Compare(x.Status, y.Status), byName)
		case "restarts":
			return cmp.Or(cmp.Compare(y.Restarts, x.Restarts), byName)
		case "age": // the newest first
			return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), byName)
		}
		return byName
	})
	o := v.options
	o.Now = now
	rows := view.PodRows(pods, o, view.AsOf)
	if !s.Fits(rows) {
		rows = view.PodRows(pods, o, view.AsOfMark)
	}
	rows[0] = append(rows[0], view.Cell{Text: "LAST EVENT", Hue: view.Plain})
	for i := range pods {
		rows[i+1] = append(rows[i+1], lastEventCell(v.last, pods[i].UID, now))
	}
	return rows
}

// lastEventCell describes the last event of a pod.
func lastEventCell(last map[types.UID]event.Event, uid types.UID, now time.Time) view.Cell {
	e, ok := last[uid]
	if !ok {
		return view.Cell{Text: "<none>", Hue: view.Plain}
	}
	return view.Cell{Text: view.OneLine(e.Reason + " " + duration.HumanDuration(now.Sub(e.Time)) + " ago: " + e.Message), Hue: view.HueOf(e.Type)}
}

// usageView shows the usage of pods, or of their containers, as `top` does, with their restarts
// and the last event of each pod.
type usageView struct {
	usage []serve.PodUsage
	pods  map[types.UID]*corev1.Pod
	last  map[types.UID]event.Event
	flags *topFlags
}

func (v *usageView) sorts() []viewSort {
	return []viewSort{{'n', "name"}, {'c', "cpu"}, {'m', "memory"}, {'r', "restarts"}}
}

func (v *usageView) title() string {
	total := totalUsage(v.usage)
	title := counted(len(v.usage), "pod")
	if len(v.usage) > 0 {
		title += " with " + view.CpuCell(total.NanoCores) + " CPU and " + view.MemoryCell(total.WorkingSetBytes) + " memory"
	}
	return title
}

// restarts returns the restarts of a pod or a container.
func (v *usageView) restarts(r usageRow) int {
	pod := v.pods[types.UID(r.pod.UID)]
	if pod == nil {
		return 0
	}
	if !v.flags.containers {
		return view.Summarize(pod).Restarts
	}
	for _, s := range view.ContainerStatuses(pod) {
		if s.Name == r.container {
			return int(s.RestartCount)
		}
	}
	return 0
}

func (v *usageView) table(order string, now time.Time, _ view.Screen) [][]view.Cell {
	rows := usageRows(v.usage, v.flags)
	slices.SortStableFunc(rows, func(a, b usageRow) int {
		switch order {
		case "cpu":
			return view.CompareUsage(a.usage.NanoCores, b.usage.NanoCores)
		case "memory":
			return view.CompareUsage(a.usage.WorkingSetBytes, b.usage.WorkingSetBytes)
		case "restarts":
			return cmp.Compare(v.restarts(b), v.restarts(a))
		}
		return 0
	})
	t := usageTable(rows, v.flags, []string{"RESTARTS", "LAST EVENT"}, func(r usageRow) []string { return []string{fmt.Sprint(v.restarts(r))} })
	for i, r := range rows {
		t.Rows[i+1] = append(t.Rows[i+1], lastEventCell(v.last, types.UID(r.pod.UID), now))
	}
	return t.Rows
}

// counted returns "1 pod" or "2 pods".
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

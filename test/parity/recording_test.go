package parity

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// recording is the content of a golden for one pod: the requests, and the files and
// cgroups on the host.
type recording struct {
	Calls      []string
	Sandboxes  []sandboxRequest
	Images     []any            // ImageStatus requests, each once
	Pulls      []any            // PullImage requests, each once
	Containers map[string][]any // configs by name, of the first two attempts
	Others     []struct {
		Method  string
		Request map[string]any
	}
	Files  map[string]podFile
	Cgroup map[string]string
	Events []string
	Log    []string // the reason why the kubelet refused the pod
}

type sandboxRequest struct {
	Config  any
	Handler string `json:"runtime_handler"`
}

type podFile struct{ Mode, Own, Text, Link, FS string }

// tracks are the lines of a recording that must be equal, in the same order on each track.
// Concurrent calls are on different tracks:
//
//	calls              the calls that act on the pod, except those about images
//	image NAME         the calls about one image
//	requests           hooks, starts and stops, in order
//	probes             ExecSync calls with a timeout, whose order depends on timing
//	images, pulls      requests about images
//	sandbox, container NAME/ATTEMPT, files, cgroup
//	events [PATH]      the events of one container, or of the pod
type tracks map[string][]string

func (r recording) tracks() tracks {
	out := tracks{}
	for _, call := range r.Calls {
		method, subject, _ := strings.Cut(call, " ")
		if method == "ImageStatus" || method == "PullImage" {
			name, failed, _ := strings.Cut(subject, " -> ")
			// Calls for other images may occur in between.
			track, line := "image "+tagged(name), strings.TrimSpace(method+" "+failed)
			if have := out[track]; len(have) == 0 || have[len(have)-1] != line {
				out.add(track, line)
			}
			continue
		}
		out.add("calls", call)
	}
	for _, o := range r.Others {
		line := o.Method + " " + compact(o.Request)
		if o.Request["timeout"] != nil && o.Method == "ExecSync" {
			out.add("probes", line)
		} else {
			out.add("requests", line)
		}
	}
	for _, i := range r.Images {
		out.add("images", compact(i))
	}
	for _, p := range r.Pulls {
		out.add("pulls", compact(p))
	}
	for i, s := range r.Sandboxes {
		if i == 0 {
			out.fields("sandbox", s.Config)
			out.add("sandbox", fmt.Sprintf("runtime_handler = %q", s.Handler))
		}
	}
	for name, attempts := range r.Containers {
		for i, config := range attempts {
			out.fields(fmt.Sprintf("container %s/%d", name, i), config)
		}
	}
	for path, f := range r.Files {
		for what, value := range map[string]string{"mode": f.Mode, "owner": f.Own, "text": f.Text, "link": f.Link, "mount": filesystem(f.FS)} {
			if value != "" {
				out.add("files", fmt.Sprintf("%s %s %q", path, what, value))
			}
		}
	}
	for file, value := range r.Cgroup {
		out.add("cgroup", fmt.Sprintf("%s %q", file, value))
	}
	for _, e := range r.Events {
		out.add(eventTrack(e), e)
	}
	for _, unordered := range []string{"images", "pulls", "probes", "files", "cgroup"} {
		slices.Sort(out[unordered])
		out[unordered] = slices.Compact(out[unordered])
		if len(out[unordered]) == 0 {
			delete(out, unordered)
		}
	}
	return out
}

func (t tracks) add(track, line string) { t[track] = append(t[track], line) }

func (t tracks) fields(track string, message any) {
	leaves := map[string]string{}
	flatten("", message, leaves)
	for _, path := range slices.Sorted(maps.Keys(leaves)) {
		t.add(track, fmt.Sprintf("%s = %q", strings.TrimPrefix(path, "."), leaves[path]))
	}
}

var eventPath = regexp.MustCompile(`^\S+ \S+ (spec\.\S+): `)

func eventTrack(e string) string {
	if m := eventPath.FindStringSubmatch(e); m != nil {
		return "events " + m[1]
	}
	return "events"
}

// filesystem returns a mount's type and the options that a pod chooses, because other options
// depend on the host's disks.
func filesystem(fs string) string {
	if kind, _, _ := strings.Cut(fs, " "); kind != "tmpfs" && kind != "hugetlbfs" && fs != "" {
		return "of the host"
	}
	return fs
}

// compact writes a message on one line. It omits the marks of static pods, which are in every
// request about an image, where they are irrelevant.
func compact(v any) string {
	if m, ok := v.(map[string]any); ok {
		if image, ok := m["image"].(map[string]any); ok {
			if a, ok := image["annotations"].(map[string]any); ok {
				maps.DeleteFunc(a, func(k string, _ any) bool { return strings.HasPrefix(k, "kubernetes.io/config.") })
				if len(a) == 0 {
					delete(image, "annotations")
				}
			}
		}
	}
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// dedupe drops repeated calls, as the recorder does, because the number of a client's retries
// depends on timing: it keeps at most two equal calls, and no two adjacent ones.
func dedupe(calls []string) []string {
	var out []string
	seen := map[string]int{}
	for _, c := range calls {
		seen[c]++
		if (len(out) == 0 || out[len(out)-1] != c) && seen[c] <= 2 {
			out = append(out, c)
		}
	}
	return out
}

// difference is a line that only the kubelet or only podrun has.
type difference struct {
	track, line string
	podruns     bool // true if podrun has the line and the kubelet does not
}

func (d difference) String() string {
	who := "only the kubelet"
	if d.podruns {
		who = "only podrun"
	}
	return fmt.Sprintf("%s: %s: %s", d.track, who, d.line)
}

// diff aligns two lists of lines by their longest common subsequence.
func diff(track string, kubelets, podruns []string) (equal int, out []difference) {
	n, m := len(kubelets), len(podruns)
	best := make([][]int, n+1)
	for i := range best {
		best[i] = make([]int, m+1)
	}
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			best[i][j] = max(best[i+1][j], best[i][j+1])
			if kubelets[i] == podruns[j] {
				best[i][j] = best[i+1][j+1] + 1
			}
		}
	}
	i, j := 0, 0
	for i < n || j < m {
		switch {
		case i < n && j < m && kubelets[i] == podruns[j]:
			equal, i, j = equal+1, i+1, j+1
		case j == m || i < n && best[i+1][j] >= best[i][j+1]:
			out = append(out, difference{track, kubelets[i], false})
			i++
		default:
			out = append(out, difference{track, podruns[j], true})
			j++
		}
	}
	return equal, out
}

// write converts tracks to lines of the form "track line". readTracks does the reverse.
func (t tracks) write() []byte {
	var out strings.Builder
	for _, track := range slices.Sorted(maps.Keys(t)) {
		for _, line := range t[track] {
			fmt.Fprintf(&out, "%s | %s\n", track, line)
		}
	}
	return []byte(out.String())
}

func readTracks(t *testing.T, data []byte) tracks {
	t.Helper()
	out := tracks{}
	for line := range strings.Lines(string(data)) {
		track, rest, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " | ")
		if !ok {
			t.Fatalf("no line of a track: %s", line)
		}
		out.add(track, rest)
	}
	return out
}

func TestDiff(t *testing.T) {
	equal, differences := diff("calls", []string{"a", "b", "c", "d"}, []string{"a", "x", "c"})
	slices.SortFunc(differences, func(a, b difference) int { return cmp.Compare(a.line, b.line) })
	want := []difference{{"calls", "b", false}, {"calls", "d", false}, {"calls", "x", true}}
	if equal != 2 || !slices.Equal(differences, want) {
		t.Errorf("%d equal, %v; want 2, %v", equal, differences, want)
	}
}

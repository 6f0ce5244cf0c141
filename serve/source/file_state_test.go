package source

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/podrun/podrun/internal/problem"
)

// pod returns a manifest of one pod.
func pod(name, image string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\nspec:\n  containers:\n  - name: c\n    image: %q\n", name, image)
}

func configMap(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  key: %q\n", name, value)
}

const broken = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: [\n"

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// step is one pass over a file. Its times are relative to epoch.
type step struct {
	at       time.Duration
	modified time.Duration
	inode    uint64
	text     string
	err      string
	// stat(2) succeeds even though err is set
	stat     bool
	writer   writer
	want     FileState
	image    string // image of the only pod in effect; empty if no object is in effect
	problems string // substring of the expected problems
}

func TestFile(t *testing.T) {
	a, b := pod("web", "a"), pod("web", "b")
	two := a + "---\n" + pod("db", "a")
	const ms, s = time.Millisecond, time.Second
	for name, steps := range map[string][]step{
		"new and whole": {{at: 0, modified: 0, text: a, want: Good, image: "a"}},
		"changed":       {{text: a, want: Good, image: "a"}, {at: 5 * s, modified: 5 * s, text: b, want: Good, image: "b"}},
		"broken is given time, then reported, and keeps what it held": {
			{text: a, want: Good, image: "a"},
			{at: 5 * s, modified: 5 * s, text: broken, want: Incomplete, image: "a"},
			{at: 5*s + 900*ms, modified: 5 * s, text: broken, want: Incomplete, image: "a"},
			{at: 6 * s, modified: 5 * s, text: broken, want: Broken, image: "a", problems: "not valid YAML"},
			{at: 9 * s, modified: 9 * s, text: b, want: Good, image: "b"}},
		"never good": {
			{text: broken, want: Incomplete},
			{at: s, text: broken, want: Broken, problems: "not valid YAML"}},
		"broken and old is reported at once": {{at: 5 * s, text: broken, want: Broken, problems: "not valid YAML"}},
		"empty": {
			{text: a, want: Good, image: "a"},
			{at: 5 * s, modified: 5 * s, text: "", want: Incomplete, image: "a"},
			{at: 6 * s, modified: 5 * s, text: "", want: Broken, image: "a", problems: "no objects in input (remove the file"}},
		"truncated, with its new size before its new time": {
			{at: 5 * s, text: a, want: Good, image: "a"},
			{at: 10 * s, text: "", writer: hasWriter, want: Incomplete, image: "a"},
			{at: 10*s + ms, modified: 10 * s, text: b, want: Good, image: "b"}},
		"changed without a new time": {
			{at: 5 * s, text: a, want: Good, image: "a"},
			{at: 10 * s, text: broken, want: Incomplete, image: "a"},
			{at: 11 * s, text: broken, want: Broken, image: "a", problems: "not valid YAML"}},
		"comments alone": {{at: 5 * s, text: "# nothing\n", want: Broken, problems: "no objects"}},
		"open for writing": {
			{text: a, writer: hasWriter, want: Incomplete},
			{at: 5 * s, text: a, writer: hasWriter, want: Incomplete},
			{at: 10 * s, text: a, writer: hasWriter, want: Good, image: "a"}},
		"closed": {
			{text: a, writer: hasWriter, want: Incomplete},
			{at: 10 * ms, text: a, want: Good, image: "a"}},
		"the file system does not tell of writers": {
			{text: a, writer: writerUnknown, want: Incomplete},
			{at: s, text: a, writer: writerUnknown, want: Good, image: "a"}},
		"a pod is lost in place": {
			{inode: 1, text: two, want: Good, image: "a"},
			{at: 5 * s, modified: 5 * s, inode: 1, text: a, want: Incomplete, image: "a"},
			{at: 6 * s, modified: 5 * s, inode: 1, text: a, want: Good, image: "a"}},
		"a pod is gone from a file that replaces the old one": {
			{inode: 1, text: two, want: Good, image: "a"},
			{at: 5 * s, modified: 5 * s, inode: 2, text: b, want: Good, image: "b"}},
		"touched": {
			{at: 2 * s, text: broken, want: Broken, problems: "not valid"},
			{at: 5 * s, modified: 5 * s, text: broken, want: Broken, problems: "not valid"}},
		"modified in the future": {
			{modified: 1000 * time.Hour, text: broken, want: Incomplete},
			{at: s, modified: 1000 * time.Hour, text: broken, want: Broken, problems: "not valid"}},
		"unreadable": {
			{text: a, want: Good, image: "a"},
			{at: 5 * s, err: "input/output error", want: Incomplete, image: "a"},
			{at: 6 * s, err: "input/output error", want: Broken, image: "a", problems: "input/output error"},
			{at: 7 * s, text: a, want: Good, image: "a"}},
		"cannot be opened": {
			{text: a, want: Good, image: "a"},
			{at: 5 * s, text: a, err: "permission denied", stat: true, want: Incomplete, image: "a"},
			{at: 6 * s, text: a, err: "permission denied", stat: true, want: Broken, image: "a", problems: "permission denied"}},
		"a ConfigMap alone": {{text: configMap("web", "x"), want: Good}},
		"a CronJob beside a pod": {{text: strings.ReplaceAll(`apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 0 * * *"
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: a}]}}}}
---
`, "\t", " ") + a, want: Good, image: "a"}},
		"a Job with a field that is not supported": {{text: `apiVersion: batch/v1
kind: Job
metadata: {name: nightly}
spec:
  completions: 2
  completionMode: Indexed
  backoffLimitPerIndex: 1
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: a}]}}
---
` + a, want: Good, image: "a", problems: "f.yaml:7: Job default/nightly: spec.backoffLimitPerIndex: podrun serve does not support this field"}},
		"a Job with parallel pods": {{text: `apiVersion: batch/v1
kind: Job
metadata: {name: nightly}
spec:
  completions: 4
  parallelism: 3
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: a}]}}
---
` + a, want: Good, image: "a", problems: "f.yaml:6: Job default/nightly: spec.parallelism: podrun runs the pods of a Job one after the other: 3 has the same effect as 1"}},
		"a CronJob with parallel pods": {{text: `apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 0 * * *"
  jobTemplate:
    spec:
      parallelism: 3
      template: {spec: {restartPolicy: Never, containers: [{name: c, image: a}]}}
---
` + a, want: Good, image: "a", problems: "f.yaml:8: CronJob default/nightly: spec.jobTemplate.spec.parallelism: podrun runs"}},
		"a Job with a name that no label can have": {{text: `apiVersion: batch/v1
kind: Job
metadata: {name: ` + strings.Repeat("n", 64) + `}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: a}]}}}
---
` + a, at: 5 * s, want: Broken, problems: "must be no more than 63 characters"}},
		"a kind that is ignored alone": {{text: "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {}\n", want: Good, problems: "Service"}},
		"generateName":                 {{at: 5 * s, text: strings.Replace(a, "name: web", "generateName: web", 1), want: Broken, problems: "does not generate names"}},
	} {
		t.Run(name, func(t *testing.T) {
			var prev *File
			for i, st := range steps {
				r := rules{now: epoch.Add(st.at), settle: time.Second}
				r.manifest.IgnoreUnknownKinds = true
				o := observation{name: "f.yaml", data: []byte(st.text), writer: st.writer,
					print: print{inode: st.inode, size: int64(len(st.text)), modified: epoch.Add(st.modified).UnixNano()}}
				if st.err != "" {
					o.err, o.data = errors.New(st.err), nil
					if !st.stat {
						o.print = print{}
					}
				}
				f := r.file("/m", prev, o, &usage{})
				image := ""
				if f.Objects != nil && len(f.Objects.Pods) > 0 {
					image = f.Objects.Pods[0].Object.Spec.Containers[0].Image
				}
				if f.State != st.want || image != st.image {
					t.Fatalf("step %d: %s with image %q, want %s with %q; problems:\n%s", i, f.State, image, st.want, st.image, f.Problems)
				}
				if text := f.Problems.String(); !strings.Contains(text, st.problems) || st.want == Broken && st.problems == "" {
					t.Fatalf("step %d: problems are %q, want %q", i, text, st.problems)
				}
				prev = &f
			}
		})
	}
}

// podrun must use at most as many objects of a directory as it accepts in one command, whatever
// the order of the files is.
func TestFileOverLimit(t *testing.T) {
	r := rules{now: epoch.Add(time.Hour), settle: time.Second}
	o := observation{name: "f.yaml", data: []byte(pod("web", "a")), print: print{modified: epoch.UnixNano()}}
	f := r.file("/m", nil, o, &usage{objects: maxObjects})
	if f.State != Broken || !strings.Contains(f.Problems.String(), "the directory exceeds the limit") {
		t.Errorf("%s: %s", f.State, f.Problems)
	}
	full := usage{}
	f = r.file("/m", nil, o, &full)
	if f.State != Good || full != (usage{bytes: int64(len(o.data)), objects: 1}) {
		t.Errorf("%s, %+v", f.State, full)
	}
}

// The problems of a file are reported once for each content.
func TestNewsOncePerContent(t *testing.T) {
	bad := func(hash, message string) File {
		return File{name: "f.yaml", Hash: hash, State: Broken, settled: Broken, Problems: problem.List{{Message: message}}}
	}
	snapshot := func(f ...File) *Snapshot { return &Snapshot{Dirs: []Dir{{Path: "/m", State: Present, Files: f}}} }
	for _, c := range []struct {
		name          string
		before, after *Snapshot
		want          int
	}{
		{"first", nil, snapshot(bad("1", "x")), 1},
		{"the same", snapshot(bad("1", "x")), snapshot(bad("1", "x")), 0},
		{"broken again in the same way", snapshot(bad("1", "x")), snapshot(bad("2", "x")), 1},
		{"another file", snapshot(File{name: "a.yaml"}), snapshot(File{name: "a.yaml"}, bad("1", "x")), 1},
		{"unreachable", snapshot(bad("1", "x")), &Snapshot{Dirs: []Dir{{State: Unreachable, Why: "gone", Files: []File{bad("1", "x")}}}}, 1},
		{"still unreachable", &Snapshot{Dirs: []Dir{{State: Unreachable, Why: "gone"}}}, &Snapshot{Dirs: []Dir{{State: Unreachable, Why: "gone"}}}, 0},
		{"back", &Snapshot{Dirs: []Dir{{State: Unreachable, Files: []File{bad("1", "x")}}}}, snapshot(bad("1", "x")), 1},
	} {
		if got := news(c.before, c.after); len(got) != c.want {
			t.Errorf("%s: %d problems, want %d: %s", c.name, len(got), c.want, got)
		}
	}
}

func TestKindOfName(t *testing.T) {
	for name, want := range map[string]nameKind{
		"a.yaml": manifestName, "a.yml": manifestName, "a.json": manifestName, "a.tmp.yaml": manifestName,
		".a.yaml": ignoreName, ".#a.yaml": ignoreName, "#a.yaml#": ignoreName, "a.yaml~": ignoreName, "4913": ignoreName,
		"a.yaml.swp": ignoreName, ".a.yaml.swx": ignoreName, "a.swo": ignoreName, "a.yaml.tmp": ignoreName, "..data": ignoreName,
		"a.txt": foreignName, "README": foreignName, "a.YAML": foreignName, "a.yaml.bak": foreignName,
	} {
		if got := kindOfName(name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
}

package source

import (
	"fmt"
	"strings"
	"testing"

	"github.com/podrun/podrun/manifest"
)

func load(t *testing.T, text string) *manifest.Objects {
	t.Helper()
	return loadAs(t, "f.yaml", text)
}

func loadAs(t *testing.T, file, text string) *manifest.Objects {
	t.Helper()
	o, problems := rules{}.load(file, observation{data: []byte(text)})
	if o == nil {
		t.Fatal(problems)
	}
	return o
}

// snapshot returns a snapshot of files: path, state, text.
func snapshot(t *testing.T, files ...[3]string) *Snapshot {
	t.Helper()
	s := &Snapshot{}
	for _, f := range files {
		dir := f[0][:strings.LastIndexByte(f[0], '/')]
		if n := len(s.Dirs); n == 0 || s.Dirs[n-1].Path != dir {
			s.Dirs = append(s.Dirs, Dir{Path: dir, State: Present})
		}
		d := &s.Dirs[len(s.Dirs)-1]
		file := File{Path: f[0], State: FileState(f[1])}
		if f[2] != "" {
			file.Objects = loadAs(t, f[0], f[2])
		}
		d.Files = append(d.Files, file)
	}
	return s
}

func TestMerge(t *testing.T) {
	withUID := func(name string) string {
		return strings.Replace(pod(name, "a"), "metadata:", "metadata:\n  uid: u1234", 1)
	}
	for name, c := range map[string]struct {
		files    [][3]string
		want     string // the pods, each with its image and its file
		value    string // of ConfigMap web
		problems []string
		origins  map[string]string // the files from which objects of the host came
	}{
		"the file of the pod on this host counts": {files: [][3]string{{"/a/x-copy.yaml", "Good", configMap("web", "old") + "---\n" + pod("web", "old") + "---\n" + pod("db", "b")}, {"/a/x.yaml", "Good", configMap("web", "1") + "---\n" + pod("web", "a")}},
			origins: map[string]string{"Pod default/web": "/a/x.yaml"}, want: "default/web=a@/a/x.yaml default/db=b@/a/x-copy.yaml", value: "1", problems: []string{
				"/a/x-copy.yaml:8: Pod default/web: metadata.name: ignored: an object with the same name is in /a/x.yaml:8 (rename or remove one of them)",
				"/a/x-copy.yaml: ConfigMap default/web: metadata.name: ignored: an object with the same name is in /a/x.yaml (rename or remove one of them)"}},
		"two files, each with a pod on this host": {files: [][3]string{{"/a/x.yaml", "Good", pod("web", "a") + "---\n" + pod("db", "a")}, {"/a/y.yaml", "Good", pod("web", "b") + "---\n" + pod("db", "b")}},
			origins: map[string]string{"Pod default/web": "/a/y.yaml", "Pod default/db": "/a/x.yaml"}, want: "default/db=a@/a/x.yaml default/web=b@/a/y.yaml", problems: []string{
				"/a/x.yaml:1: Pod default/web: metadata.name: ignored: an object with the same name is in /a/y.yaml:1 (rename or remove one of them)",
				"/a/y.yaml:10: Pod default/db: metadata.name: ignored: an object with the same name is in /a/x.yaml:10 (rename or remove one of them)"}},
		"the file of the pod on this host has never been valid": {files: [][3]string{{"/a/x.yaml", "Broken", ""}, {"/a/y.yaml", "Good", pod("web", "old")}},
			origins: map[string]string{"Pod default/web": "/a/x.yaml"}, problems: []string{
				"/a/y.yaml:1: Pod default/web: metadata.name: ignored: an object with the same name is in /a/x.yaml (rename or remove one of them)"}},
		"the file of the pod on this host is gone":     {files: [][3]string{{"/a/y.yaml", "Good", pod("web", "b")}}, origins: map[string]string{"Pod default/web": "/a/x.yaml"}, want: "default/web=b@/a/y.yaml"},
		"the file of the pod on this host was renamed": {files: [][3]string{{"/a/x.yaml", "Missing", pod("web", "a")}, {"/a/y.yaml", "Good", pod("web", "b")}}, origins: map[string]string{"Pod default/web": "/a/x.yaml"}, want: "default/web=b@/a/y.yaml"},
		"its directory is no source":                   {files: [][3]string{{"/a/y.yaml", "Good", pod("web", "b")}, {"/a/z.yaml", "Broken", ""}}, origins: map[string]string{"Pod default/web": "/b/x.yaml"}, want: "default/web=b@/a/y.yaml"},
		"all directories": {files: [][3]string{{"/b/x.yaml", "Good", pod("web", "a")}, {"/a/y.yaml", "Broken", pod("db", "b") + "---\n" + configMap("web", "1")}},
			want: "default/web=a@/b/x.yaml default/db=b@/a/y.yaml", value: "1"},
		"the first pod counts": {files: [][3]string{{"/a/x.yaml", "Good", pod("web", "a")}, {"/a/y.yaml", "Good", configMap("m", "1") + "---\n" + pod("web", "b")}, {"/b/z.yaml", "Good", pod("web", "c")}},
			want: "default/web=a@/a/x.yaml", problems: []string{
				"/a/y.yaml:8: Pod default/web: metadata.name: ignored: an object with the same name is in /a/x.yaml:1 (rename or remove one of them)",
				"/b/z.yaml:1: Pod default/web: metadata.name: ignored: an object with the same name is in /a/x.yaml:1 (rename or remove one of them)"}},
		"the first ConfigMap counts": {files: [][3]string{{"/a/x.yaml", "Good", configMap("web", "1")}, {"/b/x.yaml", "Good", configMap("web", "2")}},
			value: "1", problems: []string{"/b/x.yaml: ConfigMap default/web: metadata.name: ignored: an object with the same name is in /a/x.yaml (rename or remove one of them)"}},
		"renamed": {files: [][3]string{{"/a/x.yaml", "Missing", pod("web", "a")}, {"/a/y.yaml", "Good", pod("web", "a")}}, want: "default/web=a@/a/y.yaml"},
		"one UID": {files: [][3]string{{"/a/x.yaml", "Good", withUID("web")}, {"/a/y.yaml", "Good", withUID("db")}, {"/a/z.yaml", "Good", pod("db", "b")}},
			want: "default/web=a@/a/x.yaml default/db=b@/a/z.yaml", problems: []string{
				"/a/y.yaml:4: Pod default/db: metadata.uid: ignored: Pod default/web in /a/x.yaml:1 has the same UID (remove metadata.uid: podrun then generates a UID)"}},
		"never good": {files: [][3]string{{"/a/x.yaml", "Broken", ""}, {"/a/y.yaml", "Incomplete", ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			origin := func(kind, key string) string { return c.origins[kind+" "+key] }
			d := MergeFrom(snapshot(t, c.files...), origin)
			var got []string
			for i, p := range d.Pods {
				got = append(got, p.Key()+"="+p.Object.Spec.Containers[0].Image+"@"+p.Path)
				if o := d.Objects(i); len(o.Pods) != 1 || o.Pods[0].Object != p.Object || fmt.Sprint(o.ConfigMaps) != fmt.Sprint(d.Shared.ConfigMaps) {
					t.Errorf("the objects of pod %d are %+v", i, o)
				}
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("pods are %s, want %s", s, c.want)
			}
			if m := d.Shared.ConfigMaps["default/web"]; c.value != "" && (m == nil || m.Data["key"] != c.value) {
				t.Errorf("ConfigMap is %v, want %s", m, c.value)
			}
			if text := d.Problems.String(); text != strings.Join(c.problems, "\n") {
				t.Errorf("problems are\n%s\nwant\n%s", text, strings.Join(c.problems, "\n"))
			}
			if again := d.News(MergeFrom(snapshot(t, c.files...), origin)); len(again) > 0 {
				t.Errorf("reported again: %s", again)
			}
		})
	}
}

func TestDiff(t *testing.T) {
	uses := func(image, more string) string { return pod("web", image) + more }
	env := "    envFrom: [{configMapRef: {name: web}}]\n"
	class := func(value int) string {
		return fmt.Sprintf("---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: %d\n", value)
	}
	handler := func(name string) string {
		return "---\napiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: rc}\nhandler: " + name + "\n"
	}
	inMap := func(value string) string { return "---\n" + configMap("web", value) }
	for name, c := range map[string]struct {
		before, after string
		path          string // path of the pod in after
		want          string
	}{
		"nothing":                    {before: pod("web", "a"), after: pod("web", "a"), want: ""},
		"added":                      {after: pod("web", "a"), want: "Add default/web []"},
		"removed":                    {before: pod("web", "a") + "---\n" + pod("db", "a"), after: pod("db", "a"), want: "Remove default/web []"},
		"updated":                    {before: pod("web", "a"), after: pod("web", "b"), want: "Update default/web [spec.containers[0].image]"},
		"written otherwise":          {before: pod("web", "a"), after: pod("web", "a") + "    imagePullPolicy: Always\n  restartPolicy: Always\n", want: ""},
		"its ConfigMap":              {before: uses("a", env) + inMap("1"), after: uses("a", env) + inMap("2"), want: "Reconcile default/web [ConfigMap default/web]"},
		"its ConfigMap came":         {before: uses("a", env), after: uses("a", env) + inMap("2"), want: "Reconcile default/web [ConfigMap default/web]"},
		"another one's ConfigMap":    {before: pod("web", "a") + inMap("1"), after: pod("web", "a") + inMap("2"), want: ""},
		"both":                       {before: uses("a", env) + inMap("1"), after: uses("b", env) + inMap("2"), want: "Update default/web [spec.containers[0].image]"},
		"its PriorityClass":          {before: uses("a", "  priorityClassName: high\n") + class(1), after: uses("a", "  priorityClassName: high\n") + class(2), want: "Reconcile default/web [spec.priority]"},
		"another one's class":        {before: pod("web", "a") + class(1), after: pod("web", "a") + class(2), want: ""},
		"its RuntimeClass's handler": {before: uses("a", "  runtimeClassName: rc\n") + handler("one"), after: uses("a", "  runtimeClassName: rc\n") + handler("two"), want: "Reconcile default/web [RuntimeClass rc]"},
		"its file's name":            {before: pod("web", "a"), after: pod("web", "a"), path: "/a/y.yaml", want: "Reconcile default/web [source file]"},
	} {
		t.Run(name, func(t *testing.T) {
			merge := func(path, text string) *Desired {
				if text == "" {
					return nil
				}
				return Merge(snapshot(t, [3]string{path, "Good", text}))
			}
			if c.path == "" {
				c.path = "/a/x.yaml"
			}
			var got []string
			for _, ch := range Diff(merge("/a/x.yaml", c.before), merge(c.path, c.after)) {
				got = append(got, fmt.Sprintf("%s %s %v", ch.Kind, ch.Pod.Key(), ch.What))
				if (ch.Objects == nil) != (ch.Kind == Remove) || ch.Objects != nil && len(ch.Objects.Pods) != 1 {
					t.Errorf("%s has the objects %+v", ch.Kind, ch.Objects)
				}
			}
			if s := strings.Join(got, "\n"); s != c.want {
				t.Errorf("changes are\n%s\nwant\n%s", s, c.want)
			}
		})
	}
}

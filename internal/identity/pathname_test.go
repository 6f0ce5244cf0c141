package identity

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/podrun/podrun/internal/rootless"
)

// hostile are names that an API server may send.
var hostile = []string{"", ".", "..", "/", "../x", "../../../../etc/cron.d/x", "a/../../b", "/etc", "a/b", "a\x00b", "..\x00", "%2E%2E", "%", "a_b", "_", "...", strings.Repeat("../", 50)}

// layoutPaths calls every method of Layout that returns a path, and those of the directories that it returns. The function
// name returns a name for each argument. The keys are the methods' names, such as Pod.Checkpoint.
func layoutPaths(l Layout, name func(argument string) string) map[string]string {
	out := map[string]string{"LogPath": "/base/" + LogPath(name("ARG1"), 0)}
	addPaths(out, "", reflect.ValueOf(l), name)
	return out
}

func addPaths(out map[string]string, prefix string, dir reflect.Value, name func(string) string) {
	for i := range dir.NumMethod() {
		method := dir.Type().Method(i)
		if method.Type.NumOut() != 1 || method.Type.Out(0).Kind() != reflect.String {
			continue
		}
		args := []reflect.Value{dir}
		for n := 1; n < method.Type.NumIn(); n++ {
			switch in := method.Type.In(n); {
			case in == reflect.TypeFor[Pod]():
				args = append(args, reflect.ValueOf(Pod{Namespace: name("NAMESPACE"), Name: name("NAME"), UID: name("UID")}))
			case in.Kind() == reflect.String:
				args = append(args, reflect.ValueOf(name("ARG"+strconv.Itoa(n))))
			default:
				args = append(args, reflect.Zero(in))
			}
		}
		path := method.Func.Call(args)[0]
		out[prefix+method.Name] = path.String()
		addPaths(out, prefix+method.Name+".", path, name)
	}
}

// TestLayout checks that no path changes: a path is state that another version of podrun has written.
func TestLayout(t *testing.T) {
	if rootless.User() {
		t.Skip("the shared sockets of an ordinary user are in another directory")
	}
	const file = "testdata/layout"
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	paths := layoutPaths(Layout{RootDir: "/root", PodLogsDir: "/logs", ContainerLogsDir: "/links"}, func(argument string) string { return argument })
	var got strings.Builder
	for _, method := range slices.Sorted(maps.Keys(paths)) {
		fmt.Fprintln(&got, method, paths[method])
	}
	if got.String() != string(want) {
		t.Errorf("got\n%s\nwant the paths of %s:\n%s", got.String(), file, want)
	}
}

// TestHostileNames checks that no name leaves the directory that a path of Layout names, and that it does not add a
// directory.
func TestHostileNames(t *testing.T) {
	l := Layout{RootDir: "/root", PodLogsDir: "/logs", ContainerLogsDir: "/links", RunDir: "/run/podrun"}
	valid := layoutPaths(l, func(string) string { return "valid" })
	maps.DeleteFunc(valid, func(_, path string) bool { return !strings.Contains(path, "valid") })
	if len(valid) < 30 {
		t.Fatalf("only %d methods have names: the test would check almost nothing", len(valid))
	}
	seen := map[string]string{}
	for _, name := range hostile {
		paths := layoutPaths(l, func(string) string { return name })
		for method, want := range valid {
			path := paths[method]
			if strings.Contains(path, "\x00") || strings.Count(path, "/") != strings.Count(want, "/") || path != filepath.Clean(path) {
				t.Errorf("%s of %q: %q, want the form of %q", method, name, path, want)
			}
			// The elements that contain no name must be the same.
			got := strings.Split(path, "/")
			for i, element := range strings.Split(want, "/") {
				if !strings.Contains(element, "valid") && i < len(got) && got[i] != element {
					t.Errorf("%s of %q: %q, want the form of %q", method, name, path, want)
				}
			}
			if other, has := seen[method+path]; has {
				t.Errorf("%s: %q and %q have the same path", method, name, other)
			}
			seen[method+path] = name
		}
	}
}

// TestNamesOfPairs checks that two different pods never share a file.
func TestNamesOfPairs(t *testing.T) {
	l := Layout{RootDir: "/root"}
	if a, b := l.Locks().Pod(Pod{Namespace: "a_b", Name: "c"}), l.Locks().Pod(Pod{Namespace: "a", Name: "b_c"}); a == b {
		t.Error(a)
	}
	if got := l.Owner(Pod{Namespace: "shop", Name: "web.1"}); got != "/root/owners/shop_web.1" {
		t.Error(got)
	}
	if got := l.Pod("u").Volume("kubernetes.io~local-volume", "pvc_default_data"); got != "/root/pods/u/volumes/kubernetes.io~local-volume/pvc_default_data" {
		t.Error(got)
	}
}

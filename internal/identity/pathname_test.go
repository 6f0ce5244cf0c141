package identity

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// hostile are names that an API server may send.
var hostile = []string{"", ".", "..", "/", "../x", "../../../../etc/cron.d/x", "a/../../b", "/etc", "a/b", "a\x00b", "..\x00", "%2E%2E", "%", "a_b", "_", "...", strings.Repeat("../", 50)}

// layoutPaths calls every method of Layout that takes names, each with the given name for all of them. The keys are the
// methods' names.
func layoutPaths(t *testing.T, l Layout, name string) map[string]string {
	t.Helper()
	out := map[string]string{}
	value := reflect.ValueOf(l)
	for i := range value.NumMethod() {
		method := value.Type().Method(i)
		if method.Type.NumIn() == 1 || method.Type.NumOut() != 1 || method.Type.Out(0).Kind() != reflect.String {
			continue
		}
		args := []reflect.Value{value}
		for n := 1; n < method.Type.NumIn(); n++ {
			switch in := method.Type.In(n); {
			case in == reflect.TypeFor[Pod]():
				args = append(args, reflect.ValueOf(Pod{Namespace: name, Name: name, UID: name}))
			case in.Kind() == reflect.String:
				args = append(args, reflect.ValueOf(name))
			default:
				args = append(args, reflect.Zero(in))
			}
		}
		out[method.Name] = method.Func.Call(args)[0].String()
	}
	out["LogPath"] = "/base/" + LogPath(name, 0)
	return out
}

// TestHostileNames checks that no name leaves the directory that a path of Layout names, and that it does not add a
// directory.
func TestHostileNames(t *testing.T) {
	l := Layout{RootDir: "/root", PodLogsDir: "/logs", ContainerLogsDir: "/links", RunDir: "/run/podrun"}
	valid := layoutPaths(t, l, "valid")
	if len(valid) < 30 {
		t.Fatalf("only %d methods have names: the test would check almost nothing", len(valid))
	}
	seen := map[string]string{}
	for _, name := range hostile {
		for method, path := range layoutPaths(t, l, name) {
			want := valid[method]
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
	if a, b := l.PodLock(Pod{Namespace: "a_b", Name: "c"}), l.PodLock(Pod{Namespace: "a", Name: "b_c"}); a == b {
		t.Error(a)
	}
	if got := l.Owner(Pod{Namespace: "shop", Name: "web.1"}); got != "/root/owners/shop_web.1" {
		t.Error(got)
	}
	if got := l.Volume("u", "kubernetes.io~local-volume", "pvc_default_data"); got != "/root/pods/u/volumes/kubernetes.io~local-volume/pvc_default_data" {
		t.Error(got)
	}
}

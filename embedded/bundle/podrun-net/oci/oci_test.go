package oci

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/changes.golden")

// hosts are the hosts for which TestRewrite changes the configurations that containerd 2.4 has written for
// a pod with limits (plain), and for one with hostNetwork, hostPID and hostIPC (host). The sandbox of the
// latter is process 22420.
var hosts = map[string]Host{
	"delegated":                 {Mqueue: true, Controllers: []string{"cpu", "memory", "pids"}},
	"delegated without cpu":     {Mqueue: true, Controllers: []string{"memory", "pids"}},
	"without cgroups":           {NoCgroups: true},
	"single ID without cgroups": {NoCgroups: true, SingleID: true, Mqueue: true},
}

func TestRewrite(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) != 4 {
		t.Fatal(files, err)
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		h := hosts[name]
		h.Own = func(_, path string) bool { return strings.HasPrefix(path, "/proc/22420/") }
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			changed, err := rewriteJSON(data, h)
			if err != nil {
				t.Fatal(err)
			}
			again, err := rewriteJSON(changed, h)
			if err != nil {
				t.Fatal(err)
			}
			before, after := decode(t, data), decode(t, changed)
			fmt.Fprintf(&out, "%s, %s:\n", name, filepath.Base(file))
			changes(&out, "", before, after)
			if !reflect.DeepEqual(after, decode(t, again)) {
				var more strings.Builder
				changes(&more, "", after, decode(t, again))
				t.Errorf("%s, %s: a second call changes it:\n%s", name, file, more.String())
			}
		}
	}
	const golden = "testdata/changes.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || out.String() != string(want) {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func decode(t *testing.T, data []byte) any {
	t.Helper()
	var out any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// changes writes a line for each difference of two documents.
func changes(out *strings.Builder, path string, before, after any) {
	if reflect.DeepEqual(before, after) {
		return
	}
	b, isObject := before.(object)
	a, stays := after.(object)
	if isObject && stays {
		keys := slices.Sorted(maps.Keys(merged(b, a)))
		for _, key := range keys {
			changes(out, path+"."+key, b[key], a[key])
		}
		return
	}
	list, isList := before.([]any)
	other, staysList := after.([]any)
	if isList && staysList && len(list) == len(other) {
		for i := range list {
			changes(out, fmt.Sprintf("%s[%d]", path, i), list[i], other[i])
		}
		return
	}
	text := func(v any) string {
		line, _ := json.Marshal(v)
		return string(line)
	}
	if isList && staysList {
		for _, v := range list {
			if !slices.ContainsFunc(other, func(o any) bool { return reflect.DeepEqual(o, v) }) {
				fmt.Fprintf(out, "\t%s - %s\n", path, text(v))
			}
		}
		for _, v := range other {
			if !slices.ContainsFunc(list, func(o any) bool { return reflect.DeepEqual(o, v) }) {
				fmt.Fprintf(out, "\t%s + %s\n", path, text(v))
			}
		}
		return
	}
	fmt.Fprintf(out, "\t%s: %s -> %s\n", path, text(before), text(after))
}

func merged(all ...object) object {
	out := object{}
	for _, o := range all {
		maps.Copy(out, o)
	}
	return out
}

// TestRewriteKeeps checks numbers and fields that this program does not know.
func TestRewriteKeeps(t *testing.T) {
	in := `{"future":{"a":[1,null]},"linux":{"namespaces":null,"resources":{"memory":{"limit":9223372036854775807}}}}`
	out, err := rewriteJSON([]byte(in), Host{Own: func(_, _ string) bool { return false }})
	if err != nil || string(out) != in {
		t.Errorf("%s, %v", out, err)
	}
	for _, in := range []string{`{}`, `{"linux":5,"mounts":7}`, `{"linux":{"namespaces":[3,{"type":4,"path":5}]},"mounts":[1,{"type":[]}],"process":[]}`} {
		if _, err := rewriteJSON([]byte(in), Host{SingleID: true, NoCgroups: true, Own: func(_, _ string) bool { return true }}); err != nil {
			t.Errorf("%s: %v", in, err)
		}
	}
	if _, err := rewriteJSON([]byte(`[]`), Host{}); err == nil {
		t.Error("accepts a list")
	}
}

func TestDropControllers(t *testing.T) {
	spec := decode(t, []byte(`{"linux":{"cgroupsPath":"/a","resources":{"devices":[{"allow":false}],"cpu":{"shares":2,"cpus":"0"},"memory":{"limit":5},
		"blockIO":{"weight":3},"hugepageLimits":[{"pageSize":"2MB"}],"unified":{"memory.swap.max":"0","io.weight":"1","cgroup.freeze":"0"}}}}`)).(object)
	Rewrite(spec, Host{Controllers: []string{"memory", "cpuset"}})
	out, err := json.Marshal(spec)
	const want = `{"linux":{"cgroupsPath":"/a","resources":{"cpu":{"cpus":"0"},"devices":[{"allow":false}],"memory":{"limit":5},"unified":{"cgroup.freeze":"0","memory.swap.max":"0"}}}}`
	if err != nil || string(out) != want {
		t.Errorf("%s, %v, want\n%s", out, err, want)
	}
}

func TestBundleOf(t *testing.T) {
	for args, want := range map[string]string{
		"--root /run/runc/k8s.io --log /b/log.json --log-format json create --bundle /b --pid-file /b/init.pid --console-socket /s id": "/b",
		"--root=create create -b /b id":                   "/b",
		"--systemd-cgroup run --bundle=/b id":             "/b",
		"--debug restore --image-path run --bundle /b id": "/b",
		"run id":                          ".",
		"--root create delete --force id": "",
		"--root /r start create":          "",
		"exec --process /p create":        "",
		"features":                        "",
		"":                                "",
		"create --bundle":                 ".",
		"--log-format json --bundle /x create --bundle /b c": "/b",
	} {
		bundle, ok := bundleOf(strings.Fields(args))
		if ok != (want != "") || ok && bundle != want {
			t.Errorf("%q: %q, %v, want %q", args, bundle, ok, want)
		}
	}
}

// TestIsOwn compares with the namespaces of this process.
func TestIsOwn(t *testing.T) {
	for kind, path := range map[string]string{"network": "/proc/self/ns/net", "mount": "/proc/self/ns/mnt", "ipc": "/proc/self/ns/ipc"} {
		if !isOwn(kind, path) {
			t.Errorf("%s is not %s", path, kind)
		}
	}
	if isOwn("network", "/proc/self/ns/uts") || isOwn("network", "/nonexistent") || isOwn("../stat", "/proc/self/ns/net") {
		t.Error("another namespace is taken for the own one")
	}
}

func TestRewriteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	if err := rewriteFile(path, Host{}); err != nil {
		t.Errorf("without a file: %v", err)
	}
	if err := os.WriteFile(path, []byte(`{"linux":{"resources":{}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := rewriteFile(path, Host{NoCgroups: true}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	info, _ := os.Stat(path)
	if err != nil || string(data) != `{"linux":{}}` || info.Mode().Perm() != 0o600 {
		t.Errorf("%s, %v, %v", data, info.Mode(), err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

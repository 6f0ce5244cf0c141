package manifest

import (
	"strings"
	"testing"

	"github.com/podrun/podrun/manifest/input"
)

func TestRelativeHostPaths(t *testing.T) {
	for _, test := range []struct{ file, path, dir, want, err string }{
		{file: "ci/pod.yaml", path: "./src", dir: "/work", want: "/work/ci/src"},
		{file: "/abs/pod.yaml", path: "src", dir: "/work", want: "/abs/src"},
		{file: "ci/pod.yaml", path: "../src", dir: "/work", want: "/work/src"},
		{file: "pod.yaml", path: ".", dir: "/work", want: "/work"},
		{file: "-", path: "src", dir: "/work", want: "/work/src"},
		{file: "pod.yaml", path: "/src", want: "/src"},
		{file: "pod.yaml", path: "./src", err: `spec.volumes[0].hostPath.path: "./src" is relative (write an absolute path, or use --relative-host-paths`},
		{file: "https://example.com/pod.yaml", path: "./src", dir: "/work", err: "a manifest from a URL has no directory"},
		{file: "pod.yaml", path: "/a/../b", dir: "/work", err: "must not contain '..'"},
	} {
		text := head + "  volumes: [{name: v, hostPath: {path: '" + test.path + "'}}]\n"
		objects, problems := Load([]input.Source{{Name: test.file, Data: []byte(text)}}, Options{WorkingDir: test.dir})
		errs := problems.Errors().String()
		switch {
		case test.err != "":
			if !strings.Contains(errs, test.err) {
				t.Errorf("%s in %s: %q, want %q", test.path, test.file, errs, test.err)
			}
		case errs != "":
			t.Errorf("%s in %s: %s", test.path, test.file, errs)
		default:
			if got := objects.Pods[0].Object.Spec.Volumes[0].HostPath.Path; got != test.want {
				t.Errorf("%s in %s: %s, want %s", test.path, test.file, got, test.want)
			}
		}
	}
}

func TestWroteDNSPolicy(t *testing.T) {
	for text, want := range map[string]bool{head: false, head + "  dnsPolicy: ClusterFirst\n": true} {
		objects, problems := Load([]input.Source{{Name: "f", Data: []byte(text)}}, Options{})
		if len(problems.Errors()) > 0 || objects.Pods[0].WroteDNSPolicy != want {
			t.Errorf("%s: %v, %v", text, objects.Pods, problems)
		}
	}
}

package volume

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podrun/podrun/internal/problem"
)

// TestMissingMountPoints checks that podrun names a mount point that a read-only volume lacks. Otherwise, runc
// reports it, after the sandbox exists: mkdir /x: read-only file system.
func TestMissingMountPoints(t *testing.T) {
	const volumes = `{name: data, hostPath: {path: /srv/data}}, {name: empty, emptyDir: {}}, {name: conf, configMap: {name: conf, optional: true}}, {name: tmp, emptyDir: {}}`
	paths := map[string]Path{"/srv/data/here": {}, "/srv/data/gone": {Missing: true}, "/srv/data/sub/gone": {Missing: true}, "/srv/data/link": {Missing: true, Symlink: true}}
	for name, tc := range map[string]struct {
		mounts, other string
		points        []string
		want          string
	}{
		"it exists":                           {"{name: data, mountPath: /d, readOnly: true}, {name: tmp, mountPath: /d/here}", "", []string{"/srv/data/here"}, ""},
		"it does not exist":                   {"{name: tmp, mountPath: /d/gone/}, {name: data, mountPath: /d, readOnly: true}", "", []string{"/srv/data/gone"}, `spec.containers[0].volumeMounts[0].mountPath: the mount point /d/gone/ does not exist in the volume "data", which is mounted read-only at /d (create /srv/data/gone on the host, or mount the volume without readOnly)`},
		"below a subPath":                     {"{name: data, mountPath: /d, subPath: sub, readOnly: true}, {name: tmp, mountPath: /d/gone}", "", []string{"/srv/data/sub/gone"}, "create /srv/data/sub/gone on the host"},
		"a symlink":                           {"{name: data, mountPath: /d, readOnly: true}, {name: tmp, mountPath: /d/link}", "", []string{"/srv/data/link"}, ""},
		"a writable mount":                    {"{name: data, mountPath: /d}, {name: tmp, mountPath: /d/gone}", "", nil, ""},
		"another container may create it":     {"{name: data, mountPath: /d, readOnly: true}, {name: tmp, mountPath: /d/gone}", "{name: data, mountPath: /w}", nil, ""},
		"a writable mount between":            {"{name: data, mountPath: /d, readOnly: true}, {name: tmp, mountPath: /d/here}, {name: empty, mountPath: /d/here/gone}", "", []string{"/srv/data/here"}, ""},
		"an emptyDir":                         {"{name: empty, mountPath: /e, readOnly: true}, {name: tmp, mountPath: /e/gone}", "", nil, `the mount point /e/gone does not exist in the volume "empty"`},
		"an emptyDir that a container writes": {"{name: empty, mountPath: /e, readOnly: true}, {name: tmp, mountPath: /e/gone}", "{name: empty, mountPath: /w}", nil, ""},
		"a ConfigMap":                         {"{name: conf, mountPath: /c, readOnly: true}, {name: tmp, mountPath: /c/made}", "", nil, ""},
		"a similar path":                      {"{name: data, mountPath: /d, readOnly: true}, {name: tmp, mountPath: /data}", "", nil, ""},
	} {
		spec := "{containers: [{name: a, image: i, volumeMounts: [" + tc.mounts + "]}, {name: b, image: i, volumeMounts: [" + tc.other + "]}], volumes: [" + volumes + "]}"
		pod := podOf(t, spec)
		if diff := cmp.Diff(tc.points, MountPoints(pod)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		plan, planning := New(Input{Pod: pod})
		problems := slices.Concat(planning, Check(pod, plan, paths, ""))
		switch {
		case tc.want == "" && len(problems) > 0, tc.want != "" && len(problems) != 1:
			t.Errorf("%s: %v", name, problems)
		case tc.want != "" && (!strings.Contains(problems[0].String(), tc.want) || problems[0].Warning):
			t.Errorf("%s: %v, want %s", name, problems, tc.want)
		}
	}
}

// TestHintOfTheCause checks that a volume with several errors has the hint of the reported one.
func TestHintOfTheCause(t *testing.T) {
	v := Volume{Kind: "persistentVolumeClaim", Setup: Setup{Kind: SetupLocal, Local: &Local{Path: "/none", Options: []string{"soft"}}}}
	problems := Check(podOf(t, "{}"), Plan{Volumes: []Volume{v}}, map[string]Path{"/none": {Missing: true}}, "")
	if len(problems) != 1 || !strings.Contains(problems[0].Message, "soft") || problems[0].Hint != "" {
		t.Errorf("%v", problem.List(problems))
	}
}

package prepare

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
)

// userNSFacts returns the facts of a host that supports user namespaces.
func userNSFacts() host.Facts {
	f := testFacts
	f.KernelVersion, f.MaxUserNamespaces = "6.6.0-1-amd64", 1000
	f.Runtime = host.Runtime{Name: "containerd", Version: "2.0.0", HandlersOK: true,
		Handlers: map[string]host.RuntimeHandler{"": {UserNamespaces: true}}}
	return f
}

const usernsPlain = "containers: [{name: app, image: registry.example/app:1}]"

// TestPreferUserNamespace covers a new pod without hostUsers and the setting userNamespaces:
// prefer. The pod must get a user namespace if the host supports it and the pod is compatible
// with it.
func TestPreferUserNamespace(t *testing.T) {
	t.Parallel()
	facts := func(change func(*host.Facts)) func(*Input) {
		return func(in *Input) { change(&in.Facts) }
	}
	volume := func(v string) string { return usernsPlain + "\nvolumes: [{name: v, " + v + "}]" }
	container := func(c string) string { return "containers: [{name: app, image: registry.example/app:1, " + c + "}]" }
	const preferred = "host IDs 65536-131071, from the setting userNamespaces"
	for name, tc := range map[string]struct {
		spec   string
		change func(*Input)
		own    bool   // true if the pod must have its own user namespace
		view   string // expected text in the plan
	}{
		"plain":                   {usernsPlain, nil, true, preferred},
		"volumes of podrun":       {usernsPlain + "\nvolumes: [{name: a, emptyDir: {}}, {name: b, configMap: {name: c, optional: true}}, {name: m, emptyDir: {medium: Memory}}]", nil, true, preferred},
		"harmless capability":     {container("securityContext: {capabilities: {add: [CHOWN], drop: [ALL]}}"), nil, true, preferred},
		"the setting is not set":  {usernsPlain, func(in *Input) { in.Settings.UserNamespaces = "" }, false, ""},
		"the pod has hostUsers":   {"hostUsers: true\n" + usernsPlain, nil, false, ""},
		"the pod has its own":     {"hostUsers: false\n" + usernsPlain, nil, true, ""},
		"the runtime":             {usernsPlain, facts(func(f *host.Facts) { f.Runtime.Handlers = map[string]host.RuntimeHandler{"": {}} }), false, "none: the runtime does not support user namespaces"},
		"the kernel":              {usernsPlain, facts(func(f *host.Facts) { f.KernelVersion = "6.1.0-13-amd64" }), false, "none: Linux 6.1.0-13-amd64 does not support ID-mapped tmpfs mounts, which require 6.3"},
		"an unknown kernel":       {usernsPlain, facts(func(f *host.Facts) { f.KernelVersion = "" }), false, "none: Linux "},
		"disabled":                {usernsPlain, facts(func(f *host.Facts) { f.MaxUserNamespaces = 0 }), false, "none: user.max_user_namespaces is 0"},
		"no range":                {usernsPlain, facts(func(f *host.Facts) { f.UserNS = map[string]uint32{"other": 0} }), false, "none: podrun cannot determine the host IDs of pod other"},
		"hostNetwork":             {"hostNetwork: true\n" + usernsPlain, nil, false, "none: hostNetwork"},
		"hostPID":                 {"hostPID: true\n" + usernsPlain, nil, false, "none: hostPID"},
		"hostIPC":                 {"hostIPC: true\n" + usernsPlain, nil, false, "none: hostIPC"},
		"privileged":              {container("securityContext: {privileged: true}"), nil, false, "none: container app: privileged"},
		"hostPath":                {volume("hostPath: {path: /srv}"), nil, false, "none: volume v may not support ID-mapped mounts"},
		"nfs":                     {volume("nfs: {server: nfs.example, path: /srv}"), nil, false, "none: volume v may not support ID-mapped mounts"},
		"claim":                   {volume("persistentVolumeClaim: {claimName: c}"), nil, false, "none: volume v may not support ID-mapped mounts"},
		"capability":              {container("securityContext: {capabilities: {add: [SYS_TIME]}}"), nil, false, "none: container app: capability SYS_TIME has less effect"},
		"large user":              {container("securityContext: {runAsUser: 65536}"), nil, false, "none: container app: ID 65536 is outside"},
		"large group of the pod":  {"securityContext: {fsGroup: 100000}\n" + usernsPlain, nil, false, "none: ID 100000 is outside"},
		"large groups of the pod": {"securityContext: {supplementalGroups: [1, 70000]}\n" + usernsPlain, nil, false, "none: ID 70000 is outside"},
		"device":                  {container("resources: {limits: {example.com/gpu: 1}}"), nil, false, "none: container app: its device example.com/gpu"},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Objects: load(t, podText("web", "Always", tc.spec)), HostState: HostState{Facts: userNSFacts()}, Settings: testSettings()}
			in.Settings.UserNamespaces = nodeconfig.UserNamespacesPrefer
			if tc.change != nil {
				tc.change(&in)
			}
			targets, _ := All(in)
			view, err := targets[0].View()
			if err != nil {
				t.Log(err)
			}
			if _, own := targets[0].Plan.IDRange(); own != tc.own {
				t.Errorf("a user namespace: %t, want %t", own, tc.own)
			}
			if !strings.HasPrefix(view.UserNamespace, tc.view) || tc.view == "" && view.UserNamespace != "" {
				t.Errorf("the plan has %q, want %q", view.UserNamespace, tc.view)
			}
		})
	}
}

// TestPreferUserNamespaceKeepsPods checks that a changed setting does not replace a pod, and does
// not change a pod that is updated or restarted. A pod that is replaced because of a changed
// definition must count as new.
func TestPreferUserNamespaceKeepsPods(t *testing.T) {
	t.Parallel()
	set := func(mode string) Input {
		in := Input{HostState: HostState{Facts: userNSFacts()}, Settings: testSettings()}
		in.Settings.UserNamespaces = mode
		return in
	}
	plan := func(in Input, here []ExistingPod, text string) Target {
		t.Helper()
		in.Objects, in.Existing = load(t, text), here
		// These facts are sufficient for planning, but not for admission.
		targets, _ := All(in)
		return targets[0]
	}
	made := func(target Target) []ExistingPod {
		return []ExistingPod{{ID: target.Plan.ID, Pod: target.Plan.Pod, Made: target.Plan.Checkpoint}}
	}
	text := func(spec string) string { return podText("web", "Always", spec) }
	own, image := "hostUsers: false\n"+usernsPlain, strings.Replace(usernsPlain, "app:1", "app:2", 1)
	env := strings.Replace(usernsPlain, "app:1", "app:1, env: [{name: A, value: b}]", 1)
	hostPath := usernsPlain + "\nvolumes: [{name: v, hostPath: {path: /srv}}]"
	before, prefer := set(nodeconfig.UserNamespacesPod), set(nodeconfig.UserNamespacesPrefer)
	forced := prefer
	forced.Force = true
	hosts, preferred := made(plan(before, nil, text(usernsPlain))), made(plan(prefer, nil, text(usernsPlain)))
	explicit := made(plan(before, nil, text(own)))
	for name, tc := range map[string]struct {
		in   Input
		here []ExistingPod
		spec string
		want Change
		own  bool
	}{
		"setting added":              {prefer, hosts, usernsPlain, ChangeUnchanged, false},
		"setting added, updated":     {prefer, hosts, image, ChangeUpdate, false},
		"setting added, restarted":   {forced, hosts, usernsPlain, ChangeReplace, false},
		"setting added, replaced":    {prefer, hosts, env, ChangeReplace, true},
		"unchanged":                  {prefer, preferred, usernsPlain, ChangeUnchanged, true},
		"updated":                    {prefer, preferred, image, ChangeUpdate, true},
		"restarted":                  {forced, preferred, usernsPlain, ChangeReplace, true},
		"replaced, not eligible":     {prefer, preferred, hostPath, ChangeReplace, false},
		"setting removed":            {before, preferred, usernsPlain, ChangeUnchanged, true},
		"setting removed, updated":   {before, preferred, image, ChangeUpdate, true},
		"setting removed, replaced":  {before, preferred, env, ChangeReplace, false},
		"now explicit":               {prefer, preferred, own, ChangeUnchanged, true},
		"now the host's":             {prefer, preferred, "hostUsers: true\n" + usernsPlain, ChangeReplace, false},
		"explicit was asked for now": {prefer, hosts, own, ChangeReplace, true},
		"explicit no longer":         {before, explicit, usernsPlain, ChangeReplace, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := tc.in
			in.Facts.UserNS = map[string]uint32{preferred[0].ID.UID: 65536}
			got := plan(in, tc.here, text(tc.spec))
			if _, own := got.Plan.IDRange(); got.Change != tc.want || own != tc.own {
				t.Errorf("%s (%v) with a user namespace: %t; want %s, %t", got.Change, got.Changes, own, tc.want, tc.own)
			}
		})
	}
	if uid := made(plan(before, nil, text(usernsPlain)))[0].ID.UID; uid != preferred[0].ID.UID {
		t.Errorf("the setting changes the UID of a new pod: %s, %s", uid, preferred[0].ID.UID)
	}
}

func TestUserNamespace(t *testing.T) {
	t.Parallel()
	own := func(own bool) *corev1.Pod {
		host := !own
		return &corev1.Pod{Spec: corev1.PodSpec{HostUsers: &host}}
	}
	for _, test := range []struct {
		name    string
		pod     *corev1.Pod
		taken   map[string]uint32
		maxPods int32
		want    uint32 // first host ID; 0 means no user namespace
		problem string
	}{
		{name: "none asked for", pod: &corev1.Pod{}, maxPods: 110},
		{name: "the host's", pod: own(false), maxPods: 110},
		{name: "first", pod: own(true), maxPods: 110, want: 65536},
		{name: "lowest that is free", pod: own(true), taken: map[string]uint32{"a": 65536, "b": 3 * 65536}, maxPods: 110, want: 2 * 65536},
		{name: "the pod's own is kept", pod: own(true), taken: map[string]uint32{"this": 5 * 65536}, maxPods: 110, want: 5 * 65536},
		{name: "all taken", pod: own(true), taken: map[string]uint32{"a": 65536, "b": 2 * 65536}, maxPods: 2, problem: "other pods use all 2 ranges of host IDs"},
		// No other pod may get a range, because two pods must not share one.
		{name: "the range of another pod is unknown", pod: own(true), taken: map[string]uint32{"a": 65536, "broken": 0}, maxPods: 110, problem: "broken"},
		{name: "its own range is unknown", pod: own(true), taken: map[string]uint32{"a": 65536, "this": 0}, maxPods: 110, want: 2 * 65536},
		{name: "the pod has a range, that of another pod is unknown", pod: own(true), taken: map[string]uint32{"this": 65536, "broken": 0}, maxPods: 110, want: 65536},
		{name: "no more than there are IDs", pod: own(true), maxPods: 1<<31 - 1, want: 65536},
	} {
		t.Run(test.name, func(t *testing.T) {
			ns, problems := UserNamespace(test.pod, "this", test.taken, test.maxPods)
			if got := problems.String(); !strings.Contains(got, test.problem) || test.problem == "" && got != "" {
				t.Errorf("problems: %s; want %q", got, test.problem)
			}
			if test.want == 0 {
				if ns != nil {
					t.Errorf("a user namespace: %v", ns)
				}
				return
			}
			for _, ids := range [][]*runtimeapi.IDMapping{ns.GetUids(), ns.GetGids()} {
				if len(ids) != 1 || ids[0].HostId != test.want || ids[0].ContainerId != 0 || ids[0].Length != 65536 {
					t.Errorf("%v; want 65536 from %d on", ids, test.want)
				}
			}
		})
	}
}

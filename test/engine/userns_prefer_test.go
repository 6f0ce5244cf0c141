package engine

import (
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/prepare"
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
	facts := func(change func(*host.Facts)) func(*prepare.Input) {
		return func(in *prepare.Input) { change(&in.Facts) }
	}
	volume := func(v string) string { return usernsPlain + "\nvolumes: [{name: v, " + v + "}]" }
	container := func(c string) string { return "containers: [{name: app, image: registry.example/app:1, " + c + "}]" }
	const preferred = "host IDs 65536-131071, from the setting userNamespaces"
	for name, tc := range map[string]struct {
		spec   string
		change func(*prepare.Input)
		own    bool   // true if the pod must have its own user namespace
		view   string // expected text in the plan
	}{
		"plain":                   {usernsPlain, nil, true, preferred},
		"volumes of podrun":       {usernsPlain + "\nvolumes: [{name: a, emptyDir: {}}, {name: b, configMap: {name: c, optional: true}}, {name: m, emptyDir: {medium: Memory}}]", nil, true, preferred},
		"harmless capability":     {container("securityContext: {capabilities: {add: [CHOWN], drop: [ALL]}}"), nil, true, preferred},
		"the setting is not set":  {usernsPlain, func(in *prepare.Input) { in.Settings.UserNamespaces = "" }, false, ""},
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
			in := prepare.Input{Objects: load(t, podText("web", "Always", tc.spec)), HostState: prepare.HostState{Facts: userNSFacts()}, Settings: testSettings("/nowhere")}
			in.Settings.UserNamespaces = nodeconfig.UserNamespacesPrefer
			if tc.change != nil {
				tc.change(&in)
			}
			targets, _ := prepare.All(in)
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
	set := func(mode string) prepare.Input {
		in := prepare.Input{HostState: prepare.HostState{Facts: userNSFacts()}, Settings: testSettings("/nowhere")}
		in.Settings.UserNamespaces = mode
		return in
	}
	plan := func(in prepare.Input, here []prepare.ExistingPod, text string) prepare.Target {
		t.Helper()
		in.Objects, in.Existing = load(t, text), here
		// These facts are sufficient for planning, but not for admission.
		targets, _ := prepare.All(in)
		return targets[0]
	}
	made := func(target prepare.Target) []prepare.ExistingPod {
		return []prepare.ExistingPod{{ID: target.Plan.ID, Pod: target.Plan.Pod, Made: target.Plan.Checkpoint}}
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
		in   prepare.Input
		here []prepare.ExistingPod
		spec string
		want prepare.Change
		own  bool
	}{
		"setting added":              {prefer, hosts, usernsPlain, prepare.ChangeUnchanged, false},
		"setting added, updated":     {prefer, hosts, image, prepare.ChangeUpdate, false},
		"setting added, restarted":   {forced, hosts, usernsPlain, prepare.ChangeReplace, false},
		"setting added, replaced":    {prefer, hosts, env, prepare.ChangeReplace, true},
		"unchanged":                  {prefer, preferred, usernsPlain, prepare.ChangeUnchanged, true},
		"updated":                    {prefer, preferred, image, prepare.ChangeUpdate, true},
		"restarted":                  {forced, preferred, usernsPlain, prepare.ChangeReplace, true},
		"replaced, not eligible":     {prefer, preferred, hostPath, prepare.ChangeReplace, false},
		"setting removed":            {before, preferred, usernsPlain, prepare.ChangeUnchanged, true},
		"setting removed, updated":   {before, preferred, image, prepare.ChangeUpdate, true},
		"setting removed, replaced":  {before, preferred, env, prepare.ChangeReplace, false},
		"now explicit":               {prefer, preferred, own, prepare.ChangeUnchanged, true},
		"now the host's":             {prefer, preferred, "hostUsers: true\n" + usernsPlain, prepare.ChangeReplace, false},
		"explicit was asked for now": {prefer, hosts, own, prepare.ChangeReplace, true},
		"explicit no longer":         {before, explicit, usernsPlain, prepare.ChangeReplace, false},
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

// TestServeKeepsUserNamespaces checks that serve and apply do not change existing pods when the
// setting userNamespaces changes, and that the setting applies to new pods.
func TestServeKeepsUserNamespaces(t *testing.T) {
	t.Parallel()
	serveTest(t, func(t *testing.T, s *serving) {
		s.files.write(file("web"), servedPod("web"))
		time.Sleep(5 * time.Second)
		web := s.running("web")
		s.settings.UserNamespaces = nodeconfig.UserNamespacesPrefer
		s.restart()
		s.files.write(file("db"), servedPod("db"))
		time.Sleep(5 * time.Second)
		db := s.running("db")
		targets, _, err := s.engine().Prepare(t.Context(), load(t, servedPod("new")), node.PrepareOptions{AllowKubelet: true})
		if err != nil {
			t.Fatal(err)
		}
		if view, err := targets[0].View(); err != nil || strings.HasPrefix(view.UserNamespace, "none: Linux ") || strings.HasPrefix(view.UserNamespace, "none: user.max") {
			t.Skipf("no pod has a user namespace by default: %s, %v", view.UserNamespace, err)
		}
		if pod := s.got("db"); pod.Spec.HostUsers == nil || *pod.Spec.HostUsers || pod.Annotations[identity.AnnotationUserNamespace] != identity.UserNamespacePreferred {
			t.Errorf("db has hostUsers %v, annotations %v", pod.Spec.HostUsers, pod.Annotations)
		}
		if web := s.got("web"); web.Spec.HostUsers != nil {
			t.Errorf("web has hostUsers %t", *web.Spec.HostUsers)
		}
		s.mustApply(servedPod("web"), run.OutcomeUnchanged)
		s.mustApply(servedPod("db"), run.OutcomeUnchanged)
		s.settings.UserNamespaces = ""
		s.restart()
		time.Sleep(5 * time.Second)
		s.same(web)
		s.same(db)
		s.mustApply(servedPod("db"), run.OutcomeUnchanged)
	}, critest.Version("containerd", "v2.0.0"), critest.Handler("", &runtimeapi.RuntimeHandlerFeatures{UserNamespaces: true}))
}

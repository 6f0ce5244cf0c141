package flags

import (
	"maps"
	"regexp"
	"strings"
	"testing"

	"github.com/podrun/podrun/test/ring"
)

// TestObjects calls, on one host, commands on objects other than pods, and the conditions of wait that need no probes.
func TestObjects(t *testing.T) {
	ring.RequireRoot(t)
	all := maps.Clone(files)
	all["set.yaml"] = files["settings.yaml"] + "---\napiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db, labels: {app: x}}\n" +
		"spec: {serviceName: front, selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}}, spec: " +
		`{dnsPolicy: Default, containers: [{name: stays, image: "registry.example/app:1", envFrom: [{configMapRef: {name: settings}}]}]}}}` + "\n"
	all["changed.yaml"] = strings.Replace(files["settings.yaml"], "value", "changed", 1)
	all["once.yaml"] = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: once, labels: {app: x}}\nspec: {template: {spec: " + endsSpec + "}}\n"
	h, err := newHost(all)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.close(); err != nil {
			t.Error(err)
		}
	}()
	for _, c := range []struct {
		line string
		code int
		want string // matches the output
	}{
		{"apply -q @/before.yaml", 0, "pod/web created"},
		{"apply -q @/set.yaml @/once.yaml", 0, "pod/db created"},
		{"describe deploy/shop", 0, `(?m)^Replicas: +2 desired `},
		{"describe sts/db", 0, `(?m)^Name: +db\n`},
		{"describe job once", 0, `(?m)^Name: +once\n`},
		{"wait web --for=create", 0, "pod/web condition met"},
		{"wait web --for=jsonpath={.status.podIP}", 0, "pod/web condition met"},
		{"wait web --for=jsonpath={.status.phase}=Running", 0, "pod/web condition met"},
		{"wait web --for=jsonpath={.status.phase}=Failed --timeout=100ms", 124, "podrun: "},
		{"wait deploy/shop --for=jsonpath={.status.readyReplicas}=2", 120, "wait does not read its status"},
		{"delete svc,cm -l app=web", 0, "service/front deleted\npodrun stores ConfigMaps with the pods"},
		{"apply --dry-run=client @/changed.yaml", 0, "^configmap/settings is valid"},
		{"apply --dry-run @/changed.yaml", 120, "podrun plans only pods"},
		{"diff @/changed.yaml", 1, `(?m)^\+  key: changed$`},
		{"apply @/changed.yaml", 0, "^configmap/settings configured\nwarning: .* container stays keeps the old value of key"},
		{"apply @/changed.yaml", 0, "^configmap/settings unchanged\n$"},
		{"create -f @/changed.yaml", 121, "no pod in the input, only 1 ConfigMap"},
		{"apply @/secret.yaml", 121, "Secret flags/secret: no pod in the input or on this host refers to it"},
		{"apply -q @/apply.yaml", 0, "deployment.apps/shop configured\nservice/back created\n(?s:.*)pod/shop deleted"},
		{"delete svc,sts -l app=x", 0, "pod/db deleted"},
		{"delete sts,svc -l app=web", 0, "^service/back deleted"},
		{"get svc", 0, "no objects found"},
		{"apply -q @/apply.yaml", 0, "deployment.apps/shop unchanged"},
	} {
		got := h.call(t.Context(), false, words(c.line))
		if got.code != c.code || got.problem != "" || !regexp.MustCompile(c.want).MatchString(got.stdout+got.stderr) {
			t.Errorf("podrun %s: want exit code %d and %q: %s", c.line, c.code, c.want, got)
		}
	}
}

package manifest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podrun/podrun/manifest/input"
)

// head is a valid pod, up to the image of its only container, which is on line 7.
const head = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: c\n    image: i\n"

// object returns a document with an object that has only a name.
func object(apiVersion, kind, name string) string {
	return "---\napiVersion: " + apiVersion + "\nkind: " + kind + "\nmetadata: {name: " + name + "}\n"
}

// TestProblems checks all problems of each input, as podrun prints them.
func TestProblems(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		opts Options
		want []string
	}{
		"empty":         {text: "", want: []string{"f: no objects in input (add a Pod, or a workload with a pod template such as a Deployment or a Job)"}},
		"only comments": {text: "# a\n---\n# b\n...\n", want: []string{"f: no objects in input (add a Pod, or a workload with a pod template such as a Deployment or a Job)"}},
		"no pod": {text: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", want: []string{
			"f: no pod in the input, only 1 ConfigMap (add a Pod, or a workload with a pod template such as a Deployment or a Job)"}},
		"broken YAML, with the line of the file": {text: head + "---\na: b\n c: d\n", want: []string{
			"f:10: not valid YAML: mapping values are not allowed in this context (quote a value that has a colon and a space in it, and check the indentation)"}},
		"broken JSON": {text: "{\n  \"kind\": \"Pod\",\n  \"a\" 1\n}\n", want: []string{
			"f:3: not valid JSON: invalid character '1' after object key (check the commas, quotes and brackets of this line and the line before it)"}},
		"a template that was not rendered": {text: head + "    workingDir: {{ dir }}\n", want: []string{
			"f:1: not valid YAML: invalid map key: map[interface {}]interface {}{\"dir\":interface {}(nil)} (quote values such as {{ name }}, or render the template first: 'helm template CHART | podrun apply -')"}},
		"content that belongs to no document": {text: "{kind: Pod}\n{kind: Pod}\n", want: []string{
			"f:2: not valid YAML: did not find expected <document start> (separate documents by a line of ---)"}},
		"not an object": {text: "just words\n", want: []string{"f:1: expected an object with apiVersion and kind, got a string"}},
		"no kind":       {text: "---\n\nmetadata: {name: a}\n", want: []string{"f:3: kind: kind is missing (every object begins with apiVersion and kind, such as v1 and Pod)"}},
		"no apiVersion": {text: "kind: Pod\nmetadata: {name: a}\n", want: []string{"f:1: Pod a: apiVersion: apiVersion is missing (write apiVersion: v1)"}},
		"an old apiVersion": {text: "apiVersion: extensions/v1beta1\nkind: Deployment\nmetadata: {name: a}\n", want: []string{
			"f:1: Deployment a: apiVersion: apiVersion \"extensions/v1beta1\" does not serve kind Deployment (write apiVersion: apps/v1)"}},
		"a foreign kind of a known name": {text: "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: a}\n", want: []string{
			"f:2: Job a: kind: podrun does not read kind Job of batch.volcano.sh/v1alpha1 (remove it, or skip it with --skip-kinds=Job, or every custom resource with --skip-kinds=custom)"}},
		"an unknown kind": {text: "apiVersion: v1\nkind: Gadget\nmetadata: {name: a}\n", want: []string{
			"f:2: Gadget a: kind: podrun does not read kind Gadget of v1 (remove it, or skip it with --skip-kinds=Gadget)"}},
		"an unknown kind, ignored": {text: head + "---\napiVersion: v1\nkind: Gadget\nmetadata: {name: a}\n", opts: Options{IgnoreUnknownKinds: true}, want: []string{
			"podrun skips these objects, which it does not support: Gadget (a)"}},
		"unknown kinds that are named": {text: head + "---\napiVersion: v1\nkind: Gadget\nmetadata: {name: a}\n---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: np}\n",
			opts: Options{SkipKinds: []string{"gadget", "NetworkPolicy"}}, want: []string{
				"podrun skips these objects, which it does not support: Gadget (a), NetworkPolicy (np)"}},
		"kinds of a cluster are one warning": {text: head + "---\napiVersion: v1\nkind: Service\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: b}\n---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: i}\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleList\nitems: [{metadata: {name: r}}]\n", want: []string{
			"podrun skips these objects, which it does not support: Ingress (i), Role (r), Service (a, b)"}},
		"a foreign kind of the name of one of a cluster's": {text: "apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: a}\n", want: []string{
			"f:2: Service a: kind: podrun does not read kind Service of serving.knative.dev/v1 (remove it, or skip it with --skip-kinds=Service, or every custom resource with --skip-kinds=custom)"}},
		"a kind that restricts pods": {text: head + "---\napiVersion: v1\nkind: LimitRange\nmetadata: {name: a}\n", opts: Options{IgnoreUnknownKinds: true}, want: []string{
			"f:10: LimitRange a: kind: podrun does not enforce a LimitRange (remove it, or skip it with --skip-kinds=LimitRange)"}},
		"nothing but skipped kinds": {text: "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n", want: []string{
			"podrun skips these objects, which it does not support: Namespace (a)",
			"f: no pod in the input, only 1 Namespace (add a Pod, or a workload with a pod template such as a Deployment or a Job)"}},
		"custom resources": {text: head + object("monitoring.coreos.com/v1", "ServiceMonitor", "m") + object("monitoring.coreos.com/v1", "PrometheusRuleList", "l") +
			object("cluster.x-k8s.io/v1", "Machine", "x") + object("batch.volcano.sh/v1alpha1", "Job", "j"), opts: Options{SkipKinds: []string{"Custom"}}, want: []string{
			"podrun skips these objects, which it does not support: Job (j), Machine (x), PrometheusRuleList (l), ServiceMonitor (m)"}},
		"what is no custom resource": {text: head + object("v1", "Gadget", "a") + object("extensions/v1beta1", "Gadget", "b") + object("snapshot.storage.k8s.io/v1", "VolumeSnapshot", "c"), opts: Options{SkipKinds: []string{"custom"}}, want: []string{
			"f:10: Gadget a: kind: podrun does not read kind Gadget of v1 (remove it, or skip it with --skip-kinds=Gadget)",
			"f:14: Gadget b: kind: podrun does not read kind Gadget of extensions/v1beta1 (remove it, or skip it with --skip-kinds=Gadget)",
			"f:18: VolumeSnapshot c: kind: podrun does not read kind VolumeSnapshot of snapshot.storage.k8s.io/v1 (remove it, or skip it with --skip-kinds=VolumeSnapshot)"}},
		"custom resources that restrict pods": {text: head + object("cilium.io/v2", "CiliumNetworkPolicy", "a") + object("projectcalico.org/v3", "GlobalNetworkPolicy", "b"), opts: Options{SkipKinds: []string{"custom", "globalnetworkpolicy"}, IgnoreUnknownKinds: true}, want: []string{
			"f:10: CiliumNetworkPolicy a: kind: podrun does not enforce a CiliumNetworkPolicy (remove it, or skip it with --skip-kinds=CiliumNetworkPolicy)",
			"podrun skips these objects, which it does not support: GlobalNetworkPolicy (b)"}},
		"a misspelled kind is never ignored": {text: "apiVersion: v1\nkind: pod\nmetadata: {name: a}\n", opts: Options{IgnoreUnknownKinds: true}, want: []string{
			"f:2: pod a: kind: podrun does not read kind pod of v1 (did you mean Pod?)"}},

		"unknown field": {text: head + "    imagePullpolicy: Never\n    ports:\n    - containerport: 80\n      containerPort: 80\n", want: []string{
			"f:8: Pod default/a: spec.containers[0].imagePullpolicy: unknown field \"imagePullpolicy\" (did you mean \"imagePullPolicy\"?)",
			"f:10: Pod default/a: spec.containers[0].ports[0].containerport: unknown field \"containerport\" (did you mean \"containerPort\"?)"}},
		"unknown field, warned of": {text: head + "    foo: 1\n", opts: Options{Validate: Warn}, want: []string{
			"f:8: Pod default/a: spec.containers[0].foo: unknown field \"foo\""}},
		"unknown field, ignored": {text: head + "    foo: 1\n    foo: 2\n", opts: Options{Validate: Ignore}},
		"unknown and invalid": {text: head + "    foo: 1\n    imagePullPolicy: Sometimes\n", want: []string{
			"f:8: Pod default/a: spec.containers[0].foo: unknown field \"foo\"",
			"f:9: Pod default/a: spec.containers[0].imagePullPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"IfNotPresent\", \"Never\""}},
		"duplicate field": {text: head + "    image: j\n", want: []string{
			"f:8: spec.containers[0].image: duplicate field \"image\" (first at line 7) (remove one of them)"}},
		"files joined without a separator": {text: head + "apiVersion: v1\nkind: Secret\nmetadata: {name: b}\n", want: []string{
			"f:8: apiVersion: another object begins here, but no line --- separates it from the object of line 1 (insert the line --- between them; if files were concatenated, pass each with -f instead)"}},
		"duplicate field in JSON": {text: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i","image":"j"}]}}`, want: []string{
			"f:1: Pod default/a: spec.containers[0].image: duplicate field \"image\""}},

		"every wrong type at once, and the other documents": {
			text: head + "    tty: yep\n    args: -v\n    env:\n    - {name: N, value: 1}\n    - {name: M, value: yes}\n    resources:\n      limits: {cpu: lots, memory: true}\n    ports: [{containerPort: http}]\n---\n" + head + "    foo: 1\n",
			want: []string{
				"f:8: Pod default/a: spec.containers[0].tty: must be true or false, not a string",
				"f:9: Pod default/a: spec.containers[0].args: must be a list, not a string (begin each entry with \"- \")",
				// In YAML 1.1, N means no.
				"f:11: Pod default/a: spec.containers[0].env[0].name: must be a string, not true or false (quote the value; YAML reads y, n, yes, no, on and off as true or false)",
				"f:11: Pod default/a: spec.containers[0].env[0].value: must be a string, not a number (quote the value)",
				"f:12: Pod default/a: spec.containers[0].env[1].value: must be a string, not true or false (quote the value; YAML reads y, n, yes, no, on and off as true or false)",
				"f:14: Pod default/a: spec.containers[0].resources.limits[cpu]: not a valid quantity: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$' (write a number with one of the units Ki, Mi, Gi, or m for thousandths, such as 128Mi or 500m)",
				"f:14: Pod default/a: spec.containers[0].resources.limits[memory]: not a valid quantity: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$' (write a number with one of the units Ki, Mi, Gi, or m for thousandths, such as 128Mi or 500m)",
				"f:15: Pod default/a: spec.containers[0].ports[0].containerPort: must be a number, not a string",
				"f:24: Pod default/a: spec.containers[0].foo: unknown field \"foo\"",
			}},
		"a number too large": {text: head + "    ports: [{containerPort: 99999999999}]\n", want: []string{
			"f:8: Pod default/a: spec.containers[0].ports[0].containerPort: must be a whole number that fits in int32, not a number"}},
		"a secret's value is never shown": {text: "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {k: 'hunter2!'}\n", want: []string{
			"f:4: Secret default/a: data[k]: not valid base64 (encode the value, or put the plain value into stringData)"}},

		"validation": {text: head + "    securityContext: {runAsUser: -1}\n  - name: c\n    image: ''\n  restartPolicy: Maybe\n", want: []string{
			"f:8: Pod default/a: spec.containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
			"f:9: Pod default/a: spec.containers[1].name: Duplicate value: \"c\"",
			"f:10: Pod default/a: spec.containers[1].image: Required value",
			"f:11: Pod default/a: spec.restartPolicy: Unsupported value: \"Maybe\": supported values: \"Always\", \"OnFailure\", \"Never\""}},
		"no name": {text: "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: c, image: i}]}\n", want: []string{
			"f:1: Pod: metadata.name: Required value: name or generateName is required"}},
		"a label's key with dots and a slash": {text: "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels:\n    ok: ok\n    a.b/c: 'x y'\nspec: {containers: [{name: c, image: i}]}\n", want: []string{
			"f:5: Pod default/a: metadata.labels: Invalid value: \"x y\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"}},
		"an unsafe UID": {text: "apiVersion: v1\nkind: Pod\nmetadata: {name: a, uid: ../../etc}\nspec: {containers: [{name: c, image: i}]}\n", want: []string{
			"f:3: Pod default/a: metadata.uid: a UID is 1 to 128 letters, digits and dashes: it becomes part of a path (remove metadata.uid: podrun then generates a UID)"}},
		"two pods of one name": {text: head + "---\n" + head, want: []string{
			"f:11: Pod default/a: metadata.name: defined twice (first at line 3) (rename one of them)"}},
		"generateName without a suffix": {text: "apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\nspec: {containers: [{name: c, image: i}]}\n", want: []string{
			"f:3: Pod: metadata.generateName: this command requires metadata.name: it does not generate names"}},
		"a warning of the API": {text: head + "    env: [{name: A, value: a}, {name: A, value: b}]\n", want: []string{
			"f:8: Pod default/a: spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply"}},
		"lists within lists": {text: `{"kind":"List","items":[{"kind":"List","items":[{"kind":"List","items":[{"kind":"List","items":[{"kind":"List"}]}]}]}]}`, want: []string{
			"f:1: List: items: too many lists within lists"}},
		"in a list": {text: "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n  spec:\n    containers:\n    - name: c\n      foo: 1\n", want: []string{
			"f:9: Pod default/a: spec.containers[0].image: Required value",
			"f:10: Pod default/a: spec.containers[0].foo: unknown field \"foo\""}},
		"an unknown way to validate": {text: head, opts: Options{Validate: "harsh"}, want: []string{"unknown validation mode \"harsh\" (use strict, warn or ignore)"}},
		"UTF-16 cut short":           {text: "\xff\xfea", want: []string{"f: the text is marked as UTF-16 but has an odd number of bytes"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := Load([]input.Source{{Name: "f", Data: []byte(tc.text)}}, tc.opts)
			var got []string
			for _, p := range problems {
				got = append(got, p.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestProblemsOfSeveralFiles checks that if a name occurs in two files, the problem names both
// files.
func TestProblemsOfSeveralFiles(t *testing.T) {
	_, problems := Load([]input.Source{{Name: "a.yaml", Data: []byte(head)}, {Name: "b.yaml", Data: []byte("\n" + head)}}, Options{})
	want := "b.yaml:4: Pod default/a: metadata.name: defined twice (first at a.yaml:3) (rename one of them)"
	if problems.String() != want {
		t.Errorf("got  %s\nwant %s", problems, want)
	}
}

// TestManyProblems checks that hostile input does not cause an endless report.
func TestManyProblems(t *testing.T) {
	_, problems := Load([]input.Source{{Name: "f", Data: []byte(head + strings.Repeat("  - {}\n", 900))}}, Options{})
	if len(problems) != maxProblems+1 {
		t.Fatalf("%d problems, want %d", len(problems), maxProblems+1)
	}
	if last := problems[maxProblems]; last.Warning || !strings.HasPrefix(last.Message, "and ") {
		t.Errorf("the last problem is %q", last)
	}
}

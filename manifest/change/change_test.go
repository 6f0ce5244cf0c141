package change

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// podOf returns the pod in a text.
func podOf(t *testing.T, text string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(text), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

const web = `
metadata: {name: web, labels: {app: web}, annotations: {a: "1"}}
spec:
  initContainers: [{name: init, image: i:1}]
  containers:
    - {name: app, image: a:1, env: [{name: A, value: a}, {name: B, value: b}], resources: {limits: {cpu: 100m}}}
    - {name: side, image: s:1}
`

// expect compares a changed pod with the original after the given replacements. It also checks that the
// original is unchanged. If want is an error, expect compares only that.
func expect(t *testing.T, change func(*corev1.Pod) (*corev1.Pod, error), wantErr string, replace ...string) {
	t.Helper()
	original := podOf(t, web)
	got, err := change(original)
	if diff := cmp.Diff(podOf(t, web), original); diff != "" {
		t.Errorf("the original was changed: %s", diff)
	}
	if wantErr != "" {
		if err == nil || !strings.Contains(err.Error(), wantErr) {
			t.Errorf("%v, want %s", err, wantErr)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	text := web
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(text, replace[i]) {
			t.Fatalf("%q is not in the pod", replace[i])
		}
		text = strings.Replace(text, replace[i], replace[i+1], 1)
	}
	if diff := cmp.Diff(podOf(t, text), got); diff != "" {
		t.Error(diff)
	}
}

func TestImages(t *testing.T) {
	for name, test := range map[string]struct {
		images  []Pair
		err     string
		replace []string
	}{
		"one":            {images: []Pair{{"app", "a:2"}}, replace: []string{"a:1", "a:2"}},
		"several":        {images: []Pair{{"app", "a:2"}, {"init", "i:2"}}, replace: []string{"a:1", "a:2", "i:1", "i:2"}},
		"all":            {images: []Pair{{"*", "x"}}, replace: []string{"a:1", "x", "i:1", "x", "s:1", "x"}},
		"no such":        {images: []Pair{{"db", "x"}}, err: `unable to find container named "db" (the pod has app, `},
		"not a pattern":  {images: []Pair{{"[", "x"}}, err: "is not a pattern"},
		"one of several": {images: []Pair{{"app", "a:2"}, {"db", "x"}}, err: `unable to find container named "db"`},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, func(pod *corev1.Pod) (*corev1.Pod, error) { return Images(pod, test.images) }, test.err, test.replace...)
		})
	}
}

func TestEnv(t *testing.T) {
	const env = "{name: A, value: a}, {name: B, value: b}"
	for name, test := range map[string]struct {
		changes    []string
		containers string
		keep       bool // without overwrite
		err        string
		replace    []string
	}{
		"a value keeps its place":  {changes: []string{"A=x"}, containers: "app", replace: []string{env, "{name: A, value: x}, {name: B, value: b}"}},
		"a new value":              {changes: []string{"C=c", "D="}, containers: "app", replace: []string{env, env + ", {name: C, value: c}, {name: D}"}},
		"removed":                  {changes: []string{"A-", "C-"}, containers: "app", replace: []string{env, "{name: B, value: b}"}},
		"a value with =":           {changes: []string{"A=x=y"}, containers: "app", replace: []string{"value: a", "value: x=y"}},
		"a value that ends with -": {changes: []string{"A=x-"}, containers: "app", replace: []string{"value: a", "value: x-"}},
		"several containers":       {changes: []string{"C=c"}, containers: "*i*", replace: []string{"image: i:1", "image: i:1, env: [{name: C, value: c}]", "image: s:1", "image: s:1, env: [{name: C, value: c}]"}},
		"not overwritten":          {changes: []string{"A=x"}, containers: "app", keep: true, err: "'A' already has a value (a), and --overwrite is false"},
		"the same value":           {changes: []string{"A=a"}, containers: "app", keep: true},
		"no container":             {changes: []string{"A=a"}, containers: "db", err: "unable to find container"},
		"set and removed":          {changes: []string{"A=a", "A-"}, err: "cannot both modify and remove"},
		"not a name":               {changes: []string{"A B=a"}, err: `"A B" is not a valid key name`},
		"neither":                  {changes: []string{"A"}, err: "invalid environment variable format: A"},
	} {
		t.Run(name, func(t *testing.T) {
			e := Env{Containers: test.containers, Overwrite: !test.keep}
			if err := e.Add(test.changes); err != nil {
				if test.err == "" || !strings.Contains(err.Error(), test.err) {
					t.Errorf("%v, want %s", err, test.err)
				}
				return
			}
			expect(t, e.Change, test.err, test.replace...)
		})
	}
}

func TestEnvFromObject(t *testing.T) {
	m := &corev1.ConfigMap{Data: map[string]string{"log-level": "x", "B": "y", "c": "z"}}
	m.Name = "app"
	keys, source := ConfigMapKeys(m)
	e := Env{Containers: "app", Overwrite: true}
	renamed := e.AddKeys(keys, []string{"log-level", "B"}, source)
	if want := []Pair{{"log-level", "LOG_LEVEL"}}; !slices.Equal(renamed, want) {
		t.Errorf("%v, want %v", renamed, want)
	}
	e.Prefix("P_")
	pod, err := e.Change(podOf(t, web))
	if err != nil {
		t.Fatal(err)
	}
	s := &corev1.Secret{Data: map[string][]byte{"k": nil}}
	s.Name = "db"
	keys, source = SecretKeys(s)
	more := Env{Containers: "app", Overwrite: true}
	more.AddKeys(keys, nil, source)
	more.AddLines("X=1# comment\n# Y=2\nno value\nZ=3\r\n")
	if pod, err = more.Change(pod); err != nil {
		t.Fatal(err)
	}
	got, err := Env{Containers: "app"}.Listed(pod)
	want := []string{"# Pod web, container app", "A=a", "B=b", "# P_B from configmap app, key B", "# P_LOG_LEVEL from configmap app, key log-level",
		"# K from secret db, key k", "X=1", "Z=3"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

func TestResources(t *testing.T) {
	for name, test := range map[string]struct {
		limits, requests, err string
		replace               []string
	}{
		"a limit":          {limits: "cpu=200m", replace: []string{"cpu: 100m", "cpu: 200m"}},
		"another one":      {limits: "memory=1Gi", replace: []string{"cpu: 100m", "cpu: 100m, memory: 1Gi"}},
		"requests":         {requests: "cpu=1,memory=64Mi", replace: []string{"limits: {cpu: 100m}", "limits: {cpu: 100m}, requests: {cpu: 1, memory: 64Mi}"}},
		"no quantity":      {limits: "cpu=lots", err: "--limits=cpu=lots: "},
		"a unit of docker": {limits: "memory=64MB", err: "(did you mean 64Mi, or 64M?)"},
		"no value":         {limits: "cpu", err: `"cpu" is not of the form RESOURCE=QUANTITY`},
		"an empty entry":   {limits: "cpu=1,", err: `"" is not of the form`},
	} {
		t.Run(name, func(t *testing.T) {
			limits, err := ParseResources("limits", test.limits)
			requests, err2 := ParseResources("requests", test.requests)
			if err != nil || err2 != nil {
				if test.err == "" || !strings.Contains(err.Error(), test.err) {
					t.Errorf("%v, %v; want %s", err, err2, test.err)
				}
				return
			}
			expect(t, Resources{Limits: limits, Requests: requests, Containers: "app"}.Change, test.err, test.replace...)
		})
	}
}

func TestMetadata(t *testing.T) {
	for name, test := range map[string]struct {
		annotations bool
		changes     string
		overwrite   bool
		want        Difference
		err         string
		replace     []string
	}{
		"a label":                   {changes: "tier=front", want: Difference{Set: true}, replace: []string{"app: web", "app: web, tier: front"}},
		"the same label":            {changes: "app=web"},
		"another value":             {changes: "app=db", err: "'app' already has a value (web), and --overwrite is false"},
		"overwritten":               {changes: "app=db", overwrite: true, want: Difference{Set: true}, replace: []string{"app: web", "app: db"}},
		"removed":                   {changes: "app-", want: Difference{Removed: true}, replace: []string{"app: web", ""}},
		"removed and missing":       {changes: "app- b-", want: Difference{Removed: true, Missing: []string{"b"}}, replace: []string{"app: web", ""}},
		"a value that ends with -":  {annotations: true, changes: "b=x-", want: Difference{Set: true}, replace: []string{`a: "1"`, `a: "1", b: x-`}},
		"an invalid value":          {changes: "b=/", err: `invalid label value: "b=/"`},
		"an annotation":             {annotations: true, changes: "b=/", want: Difference{Set: true}, replace: []string{`a: "1"`, `a: "1", b: /`}},
		"another annotation":        {annotations: true, changes: "a=2", err: "--overwrite is false but found the following declared annotation(s): 'a' already has a value (1)"},
		"the cause is always new":   {annotations: true, changes: "kubernetes.io/change-cause=x", want: Difference{Set: true}, replace: []string{`a: "1"`, `a: "1", kubernetes.io/change-cause: x`}},
		"an overwritten annotation": {annotations: true, changes: "a=2", overwrite: true, want: Difference{Set: true}, replace: []string{`a: "1"`, `a: "2"`}},
	} {
		t.Run(name, func(t *testing.T) {
			pairs, err := ParsePairs(strings.Fields(test.changes), "label")
			if err != nil {
				t.Fatal(err)
			}
			if err := CheckLabels(pairs); err != nil && !test.annotations {
				if test.err == "" || !strings.Contains(err.Error(), test.err) {
					t.Errorf("%v, want %s", err, test.err)
				}
				return
			}
			expect(t, func(pod *corev1.Pod) (*corev1.Pod, error) {
				change := Labels
				if test.annotations {
					change = Annotations
				}
				out, d, err := change(pod, pairs, test.overwrite)
				if diff := cmp.Diff(test.want, d); diff != "" {
					t.Error(diff)
				}
				return out, err
			}, test.err, test.replace...)
		})
	}
}

func TestRestarted(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	expect(t, func(pod *corev1.Pod) (*corev1.Pod, error) { return Restarted(pod, at), nil }, "",
		`a: "1"`, `a: "1", kubectl.kubernetes.io/restartedAt: "2026-01-02T03:04:05Z"`)
}

func TestSplit(t *testing.T) {
	for line, want := range map[string]string{
		"pod web a=b":     "pod web | a=b",
		"web a- b=c":      "web | a- b=c",
		"web":             "web |",
		"web -":           "web - |",
		"web a=b db":      "all resources must be specified before label changes: db",
		"pod/web =a k=v":  "pod/web =a | k=v",
		"web app=a:1@b=c": "web | app=a:1@b=c",
	} {
		names, changes, err := Split(strings.Fields(line), "label")
		got := strings.TrimSpace(strings.Join(names, " ") + " | " + strings.Join(changes, " "))
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

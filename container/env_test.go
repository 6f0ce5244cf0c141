package container

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"

	"github.com/podrun/podrun/internal/problem"
)

func configMapKey(name, key string, optional *bool) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: optional}}
}

func secretKey(name, key string, optional *bool) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: optional}}
}

func field(path string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
}

// refs returns the input with a ConfigMap cm and a Secret s added.
func refs(in Input) Input {
	in.ConfigMaps = map[string]*corev1.ConfigMap{"cm": {Data: map[string]string{"b": "1", "a": "2", "c=d": "3"}}}
	in.Secrets = map[string]*corev1.Secret{"s": {Data: map[string][]byte{"pw": []byte("x")}, StringData: map[string]string{"text": "y"}}}
	return in
}

func TestEnvOrder(t *testing.T) {
	in := refs(input(corev1.Container{
		EnvFrom: []corev1.EnvFromSource{
			{Prefix: "C_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}}},
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}},
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "gone"}, Optional: ptr(true)}},
		},
		Env: []corev1.EnvVar{
			{Name: "A", Value: "$(C_a)-$(B)-$$(C_a)"},
			{Name: "B", Value: "b"},
			{Name: "pw", Value: "over"},
			{Name: "A", Value: "again $(A)"},
		},
		Command: []string{"echo", "$(A)", "$(NOPE)"},
	}))
	p, problems := New(in)
	if len(problems) != 1 || !problems[0].Warning || problems[0].Reason != "InvalidEnvironmentVariableNames" || !strings.Contains(problems[0].Message, "C_c=d") {
		t.Errorf("want one warning about C_c=d, got %v", problems)
	}
	c, err := p.Config(Late{})
	if err != nil {
		t.Fatal(err)
	}
	want := "C_a=2 C_b=1 pw=over text=y A=again 2-$(B)-$(C_a) B=b"
	if got := envOf(c); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if diff := cmp.Diff([]string{"echo", "again 2-$(B)-$(C_a)", "$(NOPE)"}, c.Command); diff != "" {
		t.Errorf("command: %s", diff)
	}
}

// TestMissingReferences checks that podrun reports all missing references together, with their
// fields, before any side effect.
func TestMissingReferences(t *testing.T) {
	in := refs(input(corev1.Container{
		EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "x"}}}},
		Env: []corev1.EnvVar{
			{Name: "A", ValueFrom: configMapKey("x", "k", nil)},
			{Name: "B", ValueFrom: configMapKey("cm", "k", nil)},
			{Name: "C", ValueFrom: secretKey("y", "k", ptr(false))},
			{Name: "D", ValueFrom: secretKey("s", "k", nil)},
			{Name: "E", ValueFrom: configMapKey("x", "k", ptr(true))},
			{Name: "F", ValueFrom: secretKey("s", "k", ptr(true))},
			{Name: "G", ValueFrom: field("spec.nothing")},
		},
	}))
	p, problems := New(in)
	wantProblem(t, problems, "spec.containers[0].envFrom[0]", `configmap "x" not found`)
	if want := "add the ConfigMap to the input, or name its file with --configmap"; problems[0].Hint != want {
		t.Errorf("hint %q, want %q", problems[0].Hint, want)
	}
	wantProblem(t, problems, "spec.containers[0].env[0].valueFrom", `configmap "x" not found`)
	wantProblem(t, problems, "spec.containers[0].env[1].valueFrom", "couldn't find key k in ConfigMap default/cm")
	wantProblem(t, problems, "spec.containers[0].env[2].valueFrom", `secret "y" not found`)
	wantProblem(t, problems, "spec.containers[0].env[3].valueFrom", "couldn't find key k in Secret default/s")
	wantProblem(t, problems, "spec.containers[0].env[6].valueFrom", "spec.nothing")
	if len(problems) != 6 {
		t.Errorf("want 6 problems, got %d", len(problems))
	}
	var e *problem.Error
	if _, err := p.Config(Late{}); !errors.As(err, &e) || e.Kind != problem.Manifest || len(e.Problems) != 6 {
		t.Errorf("Config: got %v", err)
	}
}

func TestOptionalIsNotDeclared(t *testing.T) {
	in := refs(input(corev1.Container{Env: []corev1.EnvVar{
		{Name: "E", ValueFrom: configMapKey("x", "k", ptr(true))},
		{Name: "F", ValueFrom: secretKey("s", "k", ptr(true))},
		{Name: "G", ValueFrom: secretKey("s", "pw", nil)},
		{Name: "H", Value: "$(E)"},
	}}))
	if got := envOf(mustConfig(t, in, Late{})); got != "G=x H=$(E)" {
		t.Errorf("got %s", got)
	}
}

func TestFieldRefs(t *testing.T) {
	in := input(corev1.Container{Env: []corev1.EnvVar{
		{Name: "NODE", ValueFrom: field("spec.nodeName")},
		{Name: "UID", ValueFrom: field("metadata.uid")},
		{Name: "IP", ValueFrom: field("status.podIP")},
		{Name: "IPS", ValueFrom: field("status.podIPs")},
		{Name: "HOST", ValueFrom: field("status.hostIP")},
		{Name: "LABEL", ValueFrom: field("metadata.labels['a']")},
	}})
	in.Pod.Labels = map[string]string{"a": "b"}
	got := envOf(mustConfig(t, in, Late{PodIPs: []string{"10.0.0.1", "fd00::1"}}))
	if want := "NODE=node UID=u IP=10.0.0.1 IPS=10.0.0.1,fd00::1 HOST=192.0.2.10 LABEL=b"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	in.Pod.Spec.HostNetwork = true
	got = envOf(mustConfig(t, in, Late{HostIPs: []string{"192.0.2.11"}}))
	if want := "NODE=node UID=u IP=192.0.2.11 IPS=192.0.2.11 HOST=192.0.2.11 LABEL=b"; got != want {
		t.Errorf("host network: got  %s\nwant %s", got, want)
	}
}

func TestResourceFieldRefs(t *testing.T) {
	ref := func(container, name, divisor string) *corev1.EnvVarSource {
		r := &corev1.ResourceFieldSelector{ContainerName: container, Resource: name}
		if divisor != "" {
			r.Divisor = resource.MustParse(divisor)
		}
		return &corev1.EnvVarSource{ResourceFieldRef: r}
	}
	in := input(corev1.Container{Env: []corev1.EnvVar{
		{Name: "CPU", ValueFrom: ref("", "limits.cpu", "")},       // the limit is that of the node
		{Name: "MEM", ValueFrom: ref("", "limits.memory", "1Mi")}, // the limit is that of the pod's spec
		{Name: "REQ", ValueFrom: ref("", "requests.memory", "")},  // the container has no request
		// This is a field of another container.
		{Name: "OTHER", ValueFrom: ref("other", "limits.cpu", "1m")},
		{Name: "UP", ValueFrom: ref("other", "limits.memory", "1Gi")}, // the value is rounded up
	}})
	in.Pod.Spec.Containers = append(in.Pod.Spec.Containers, corev1.Container{Name: "other", Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m"), corev1.ResourceMemory: resource.MustParse("1025Mi")},
	}})
	in.Pod.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")}}
	if got, want := envOf(mustConfig(t, in, Late{})), "CPU=2 MEM=512 REQ=0 OTHER=1500 UP=2"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestFileKeys covers KEP-3721: the caller reads variables from a file in a volume.
func TestFileKeys(t *testing.T) {
	fromFile := func(key string, optional bool) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: "v", Path: "p", Key: key, Optional: &optional}}
	}
	p := mustPlan(t, input(corev1.Container{Env: []corev1.EnvVar{
		{Name: "A", ValueFrom: fromFile("a", false)}, {Name: "B", ValueFrom: fromFile("b", true)},
	}}))
	a, b := FileKey{"v", "p", "a"}, FileKey{"v", "p", "b"}
	if diff := cmp.Diff([]FileKey{a, b}, p.FileKeys()); diff != "" {
		t.Fatalf("-want +got:\n%s", diff)
	}
	c, err := p.Config(Late{FileValues: map[FileKey]string{a: "1"}})
	if err != nil || envOf(c) != "A=1" {
		t.Errorf("got %v, %v", c, err)
	}
	if _, err := p.Config(Late{}); err == nil || !strings.Contains(err.Error(), `key "a" not found in file "p"`) {
		t.Errorf("got %v", err)
	}
}

// TestF3ExpansionBounded checks that podrun limits the length of the expansion before it builds the
// text. With 40 variables that each refer twice to the previous one, `podrun plan` once used 23 GB
// of memory.
func TestF3ExpansionBounded(t *testing.T) {
	doubling := []corev1.EnvVar{{Name: "V0", Value: "xxxxxxxxxxxxxxxx"}}
	for i := 1; i < 28; i++ {
		doubling = append(doubling, corev1.EnvVar{Name: fmt.Sprintf("V%d", i), Value: fmt.Sprintf("$(V%d)$(V%d)", i-1, i-1)})
	}
	// Eleven variables, each of which is short enough; one more fits.
	const part, parts = 130_000, 11
	text, data := strings.Repeat("x", part), map[string]string{}
	var long, fromMap []corev1.EnvVar
	left := maxExpanded
	for i := range parts {
		name := fmt.Sprintf("A%d", i)
		data[name] = text
		long = append(long, corev1.EnvVar{Name: name, Value: text})
		fromMap = append(fromMap, corev1.EnvVar{Name: name, ValueFrom: configMapKey("long", name, nil)})
		left -= part + len(name)
	}
	refill := slices.Repeat([]corev1.EnvVar{{Name: "A1", Value: "$(A1)x"}}, 3)
	for name, test := range map[string]struct {
		c    corev1.Container
		want string // field of the only problem; "" means no problem
	}{
		"doubling":     {corev1.Container{Env: doubling}, "spec.containers[0].env[13]"},
		"overwritten":  {corev1.Container{Env: append(slices.Clone(long), refill...)}, "spec.containers[0].env[12]"},
		"command":      {corev1.Container{Env: long, Command: []string{"sh", "$(A1)$(A1)$(A1)"}}, "spec.containers[0].command[1]"},
		"args":         {corev1.Container{Env: long, Args: []string{"$(A1)", "$(A1)"}}, "spec.containers[0].args[1]"},
		"subPathExpr":  {corev1.Container{Env: long, VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/m", SubPathExpr: "$(A1)$(A1)"}}}, "spec.containers[0].volumeMounts[0].subPathExpr"},
		"envFrom":      {corev1.Container{EnvFrom: slices.Repeat([]corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "long"}}}}, 2)}, "spec.containers[0].envFrom[1]"},
		"a ConfigMap":  {corev1.Container{Env: append(fromMap, corev1.EnvVar{Name: "B", Value: "$(A1)$(A1)"})}, "spec.containers[0].env[11]"},
		"all that fit": {corev1.Container{Env: long, Args: []string{text, strings.Repeat("x", left-part)}}, ""},
	} {
		in := input(test.c)
		in.ConfigMaps = map[string]*corev1.ConfigMap{"long": {Data: data}}
		_, problems := New(in)
		switch {
		case test.want == "" && len(problems) > 0:
			t.Errorf("%s: %v", name, problems)
		case test.want != "" && (len(problems) != 1 || problems[0].Field != test.want || problems[0].Kind != problem.Manifest):
			t.Errorf("%s: %.300v, want one of %s", name, problems, test.want)
		}
	}
}

// FuzzLengthOf checks that lengthOf returns the length of the expansion.
func FuzzLengthOf(f *testing.F) {
	for _, seed := range []string{"$(A)", "$$(A)$(NONE)$(", "$(A$(B))", "$", "$$", "a$(Ü)$é"} {
		f.Add(seed, "value")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		e := environ{values: map[string]string{"A": value, "B": "$(A)"}}
		if got, want := e.lengthOf(text), len(expansion.Expand(text, expansion.MappingFuncFor(e.values))); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	})
}

// TestServiceVariables checks that the container's own variables take precedence over the variables
// of Services, and may refer to them.
func TestServiceVariables(t *testing.T) {
	p := Plan{container: &corev1.Container{Env: []corev1.EnvVar{{Name: "URL", Value: "http://$(WEB_SERVICE_HOST)/"}, {Name: "WEB_SERVICE_PORT", Value: "own"}}}}
	env, problems := p.environment(Late{ServiceEnv: []corev1.EnvVar{{Name: "WEB_SERVICE_PORT", Value: "80"}, {Name: "WEB_SERVICE_HOST", Value: "10.0.0.1"}}})
	var got []string
	for _, kv := range env.keyValues() {
		got = append(got, kv.Key+"="+string(kv.Value))
	}
	if want := "URL=http://10.0.0.1/ WEB_SERVICE_PORT=own WEB_SERVICE_HOST=10.0.0.1"; strings.Join(got, " ") != want || len(problems) > 0 {
		t.Errorf("%q, %v", got, problems)
	}
}

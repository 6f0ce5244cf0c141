package container

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/problem"
)

// TestNULInVariables checks that podrun refuses a value with a NUL byte from each source, and that the
// problem names the variable and the key but never the value: only runc would find the byte, and its
// error quotes the value.
func TestNULInVariables(t *testing.T) {
	const value = "hunter2\x00hunter2"
	secret := func(key string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "db"}, Key: key}}
	}
	ref := corev1.LocalObjectReference{Name: "db"}
	for name, test := range map[string]struct {
		c           corev1.Container
		field, want string
	}{
		"Secret":     {corev1.Container{Env: []corev1.EnvVar{{Name: "PW", ValueFrom: secret("data")}}}, "env[0]", `variable "PW", from key "data" of Secret "db",`},
		"stringData": {corev1.Container{Env: []corev1.EnvVar{{Name: "PW", ValueFrom: secret("text")}}}, "env[0]", `variable "PW", from key "text" of Secret "db",`},
		"ConfigMap":  {corev1.Container{Env: []corev1.EnvVar{{Name: "PW", ValueFrom: configMapKey("db", "k", nil)}}}, "env[0]", `variable "PW", from key "k" of ConfigMap "db",`},
		"envFrom Secret": {corev1.Container{EnvFrom: []corev1.EnvFromSource{{Prefix: "P_", SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref}}}}, "envFrom[0]",
			`variable "P_data", from key "data" of Secret "db",`},
		"envFrom ConfigMap": {corev1.Container{EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref}}}}, "envFrom[0]",
			`variable "k", from key "k" of ConfigMap "db",`},
		"the manifest": {corev1.Container{Env: []corev1.EnvVar{{Name: "PW", Value: value}}}, "env[0]", `variable "PW" contains`},
		"an annotation": {corev1.Container{Env: []corev1.EnvVar{{Name: "PW", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['a']"}}}}},
			"env[0]", `variable "PW" contains`},
		"only a NUL": {corev1.Container{Env: []corev1.EnvVar{{Name: "PW", Value: "\x00"}}}, "env[0]", `variable "PW" contains`},
		"a command":  {corev1.Container{Command: []string{"sh", value}}, "command[1]", "contains a NUL byte"},
		"args":       {corev1.Container{Args: []string{value}}, "args[0]", "contains a NUL byte"},
	} {
		in := input(test.c)
		in.Pod.Annotations = map[string]string{"a": value}
		in.Secrets = map[string]*corev1.Secret{"db": {Data: map[string][]byte{"data": []byte(value)}, StringData: map[string]string{"text": value}}}
		in.ConfigMaps = map[string]*corev1.ConfigMap{"db": {Data: map[string]string{"k": value}}}
		_, problems := New(in)
		if len(problems) == 0 || problems[0].Kind != problem.Manifest || problems[0].Warning || problems[0].Field != "spec.containers[0]."+test.field || !strings.Contains(problems[0].String(), test.want) {
			t.Errorf("%s: %v, want %s: %s", name, problems, test.field, test.want)
		}
		if text := problems.String(); strings.Contains(text, "hunter2") || strings.Contains(text, "\x00") {
			t.Errorf("%s: the problem has the value: %q", name, text)
		}
	}
	p := mustPlan(t, input(corev1.Container{Env: []corev1.EnvVar{{Name: "PW", ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: "v", Path: "p", Key: "k"}}}}}))
	if _, err := p.Config(Late{FileValues: map[FileKey]string{{"v", "p", "k"}: value}}); err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), `variable "PW", from key "k" of file "p" of volume "v",`) {
		t.Errorf("a file: %v", err)
	}
}

// TestUnusableText checks that podrun refuses variables and arguments that the kernel or the runtime would refuse
// when the container starts, and warns about values that the runtime would change.
func TestUnusableText(t *testing.T) {
	secret := &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "db"}, Key: "k"}}
	long := strings.Repeat("x", maxString-len("PW=")-1)
	for name, test := range map[string]struct {
		c           corev1.Container
		secret      string
		field, want string
		warning     bool
	}{
		"a variable that fits":     {c: corev1.Container{Env: []corev1.EnvVar{{Name: "PW", Value: long}}}},
		"a variable that does not": {c: corev1.Container{Env: []corev1.EnvVar{{Name: "PW", Value: long + "x"}}}, field: "env[0]", want: `the variable "PW" has 131072 bytes, but the kernel passes at most 131071 bytes to a program (mount the value as a file)`},
		"of a Secret":              {c: corev1.Container{Env: []corev1.EnvVar{{Name: "PW", ValueFrom: secret}}}, secret: long + "x", field: "env[0]", want: `the variable "PW", from key "k" of Secret "db", has 131072 bytes`},
		"after its expansion":      {c: corev1.Container{Env: []corev1.EnvVar{{Name: "A", Value: "xx"}, {Name: "PW", Value: long[2:] + "$(A)x"}}}, field: "env[1]", want: "has 131072 bytes"},
		"an argument that fits":    {c: corev1.Container{Args: []string{long + "PW="}}},
		"an argument that does not": {c: corev1.Container{Env: []corev1.EnvVar{{Name: "PW", Value: long}}, Args: []string{"$(PW)1234"}}, field: "args[0]",
			want: "has 131072 bytes, but the kernel passes at most 131071 bytes to a program (pass the value in a file)"},
		"a value that is not UTF-8": {c: corev1.Container{Env: []corev1.EnvVar{{Name: "PW", ValueFrom: secret}}}, secret: "a\xffb", field: "env[0]", warning: true,
			want: `the value of the variable "PW", from key "k" of Secret "db", is not UTF-8`},
		"an argument that is not UTF-8": {c: corev1.Container{Env: []corev1.EnvVar{{Name: "PW", ValueFrom: secret}}, Args: []string{"$(PW)"}}, secret: "a\xffb", field: "args[0]", want: "is not UTF-8"},
	} {
		in := input(test.c)
		in.Secrets = map[string]*corev1.Secret{"db": {Data: map[string][]byte{"k": []byte(test.secret)}}}
		_, problems := New(in)
		if test.want == "" {
			if len(problems) > 0 {
				t.Errorf("%s: %.300v", name, problems)
			}
			continue
		}
		last := problems[max(len(problems)-1, 0):]
		if len(last) == 0 || last[0].Warning != test.warning || last[0].Field != "spec.containers[0]."+test.field || !strings.Contains(last[0].String(), test.want) {
			t.Errorf("%s: %.300v, want %s: %s", name, problems, test.field, test.want)
		}
	}
}

// TestRedactQuoted checks that a runtime's error does not reveal a variable, in any form in which the
// runtime quotes it.
func TestRedactQuoted(t *testing.T) {
	in := input(corev1.Container{Env: []corev1.EnvVar{{Name: "PW", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "db"}, Key: "k"}}},
		{Name: "TOKEN", Value: "hunter2"}}})
	in.Secrets = map[string]*corev1.Secret{"db": {Data: map[string][]byte{"k": []byte("hunter2\n\"é<\t"), "short": []byte("prefix"), "long": []byte("prefix-and-more"), "part": []byte("prefix-and")}}}
	p := mustPlan(t, in)
	for message, want := range map[string]string{
		`environment variable value can't contain null(\x00): "PW=hunter2\x00secret": unknown`: `environment variable value can't contain null(\x00): "PW=<redacted>`,
		`bad variable 'TOKEN=hunter2': no`:                  `bad variable 'TOKEN=<redacted>`,
		`invalid environment variable "OTHER=hunter2"`:      `invalid environment variable "OTHER=<redacted>`,
		`exec "hunter2\n\"é<": not found`:                   `exec "<redacted>": not found`,
		`exec "hunter2\n\"\u00e9<": not found`:              `exec "<redacted>": not found`,
		`{"args":["hunter2\n\"é\u003c"]}`:                   `{"args":["<redacted>"]}`,
		"exec hunter2\n\"é<: not found":                     "exec <redacted>: not found",
		`the option MYPW=1 and PWD=2 are not variables`:     `the option MYPW=1 and PWD=2 are not variables`,
		"exec prefix-and-more: not found":                   "exec <redacted>: not found",
		`exec: "none": executable file not found in $PATH`:  `exec: "none": executable file not found in $PATH`,
		`invalid environment variable "PW": contains a nul`: `invalid environment variable "PW": contains a nul`,
	} {
		if got := p.Redact(message); got != want {
			t.Errorf("%q: %q, want %q", message, got, want)
		}
	}
}

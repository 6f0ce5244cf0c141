package container

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/internal/credential"
	"github.com/podrun/podrun/internal/problem"
)

// TestCredentialIsNoVariable checks that a variable cannot have the value of a credential of the host, and that other
// keys of the same Secret can be variables.
func TestCredentialIsNoVariable(t *testing.T) {
	key := func(name string) corev1.Container {
		return corev1.Container{Env: []corev1.EnvVar{{Name: "V", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "db"}, Key: name, Optional: ptr(true)}}}}}
	}
	all := corev1.Container{EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "db"}}}}}
	for name, c := range map[string]struct {
		container corev1.Container
		refused   bool
	}{"the key": {key("password"), true}, "all keys": {all, true}, "another key": {key("user"), false}} {
		in := input(c.container)
		in.Secrets = map[string]*corev1.Secret{"db": {Data: map[string][]byte{"user": []byte("me")},
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{credential.Annotation + "password": "sealed"}}}}
		_, problems := New(in)
		if c.refused != (len(problems) == 1 && problems[0].Kind == problem.Manifest && strings.Contains(problems[0].Message, `key "password" of Secret "db" is a credential of the host`)) || !c.refused && len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
	}
}

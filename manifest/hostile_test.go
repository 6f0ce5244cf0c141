package manifest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest/input"
)

// hostile loads a stream and returns the errors.
func hostile(text string) problem.List {
	_, problems := Load([]input.Source{{Name: "in.yaml", Data: []byte(text)}}, Options{})
	return problems.Errors()
}

// Hostile ConfigMaps and Secrets.
func TestHostileObjects(t *testing.T) {
	const mib = 1 << 20
	secret := func(bytes int) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {key: %q}\n", strings.Repeat("s", bytes))
	}
	object := func(key string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {%q: value}\n", key)
	}
	pod := "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: a, image: i}]}\n"
	for name, test := range map[string]struct {
		text string
		want string // text in the problem; "" if there must be none
	}{
		"a Secret of 1 MiB": {secret(mib) + pod, ""},
		"a Secret above":    {secret(mib+1) + pod, "Too long"},
		"a key with ..":     {object("../etc/passwd") + pod, "a valid config key must consist of"},
		"the key ..":        {object("..") + pod, "must not be '..'"},
		"an absolute key":   {object("/etc/passwd") + pod, "a valid config key must consist of"},
		"a key with NUL":    {object("a\x00b") + pod, "a valid config key must consist of"},
		// A key on one line has at most 1024 characters.
		"a key of 64 KiB":         {object(strings.Repeat("x", 64<<10)) + pod, "not valid YAML"},
		"metadata.uid with ../..": {"apiVersion: v1\nkind: Pod\nmetadata: {name: p, uid: ../../../etc}\nspec: {containers: [{name: a, image: i}]}\n", "uid"},
	} {
		got := hostile(test.text)
		switch {
		case test.want == "" && len(got) > 0, test.want != "" && (len(got) == 0 || !strings.Contains(got.String(), test.want)):
			t.Errorf("%s: %.300s, want %q", name, got, test.want)
		case len(got.String()) > 4096:
			t.Errorf("%s: a message of %d bytes", name, len(got.String()))
		case strings.Contains(got.String(), "sssssss"):
			t.Errorf("%s: the message has the Secret", name)
		}
	}
}

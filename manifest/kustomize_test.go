package manifest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podrun/podrun/internal/problem"
)

// TestReadKustomization: the output of kustomize, or otherwise of kubectl, is the source.
func TestReadKustomization(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin) // the host may have a kubectl
	for _, tool := range []string{"cat", "head", "sleep"} {
		if err := os.Symlink("/bin/"+tool, filepath.Join(bin, tool)); err != nil {
			t.Fatal(err)
		}
	}
	install := func(name, script string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	fails := func(kind problem.Kind, want string) {
		t.Helper()
		_, err := ReadKustomization(t.Context(), "prod")
		if e, ok := errors.AsType[*problem.Error](err); !ok || e.Kind != kind || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	fails(problem.Usage, "neither kustomize nor kubectl is installed")
	for name, words := range map[string]string{"kubectl": "kustomize prod", "kustomize": "build prod"} { // kustomize takes precedence
		if name == "kustomize" {
			install("kubectl", "exit 9\n")
		} else if err := os.RemoveAll(filepath.Join(bin, "kustomize")); err != nil {
			t.Fatal(err)
		}
		install(name, `test "$*" = "`+words+`" && cat <<EOF
`+head+`
EOF
`)
		source, err := ReadKustomization(t.Context(), "prod")
		if err != nil {
			t.Fatal(err)
		}
		objects, problems := Load([]Source{source}, Options{})
		if len(problems.Errors()) > 0 || len(objects.Pods) != 1 || source.Name != "prod/(kustomization)" {
			t.Errorf("%s: %v, %v", name, objects, problems)
		}
	}
	empty := t.TempDir()
	if _, err := ReadKustomization(t.Context(), empty); err == nil || !strings.Contains(err.Error(), "the directory has no kustomization.yaml, kustomization.yml or Kustomization") {
		t.Errorf("a directory without a kustomization: %v", err)
	}
	install("kustomize", "echo 'no such resource' >&2; exit 1\n")
	fails(problem.Manifest, "kustomize build: no such resource")
	install("kustomize", "head -c 100000000 /dev/zero; sleep 600\n")
	fails(problem.Manifest, "its output is larger than")

	install("kustomize", "sleep 600\n")
	stopped, stop := context.WithCancelCause(t.Context())
	ended := errors.New("ended by SIGINT")
	stop(ended)
	if _, err := ReadKustomization(stopped, "prod"); !errors.Is(err, ended) {
		t.Errorf("%v", err)
	}
}

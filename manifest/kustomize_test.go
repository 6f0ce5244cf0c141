package manifest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest/input"
)

// TestReadKustomization checks that the source is the output of kustomize. If that is not
// installed, it is the output of kubectl.
func TestReadKustomization(t *testing.T) {
	bin := t.TempDir()
	// The host may have a kubectl.
	t.Setenv("PATH", bin)
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
	t.Chdir(t.TempDir())
	if err := os.Mkdir("prod", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("prod/kustomization.yaml", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fails := func(kind problem.Kind, want string) {
		t.Helper()
		_, err := input.ReadKustomization(t.Context(), "prod")
		if e, ok := errors.AsType[*problem.Error](err); !ok || e.Kind != kind || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	fails(problem.Usage, "neither kustomize nor kubectl is installed")
	for name, words := range map[string]string{"kubectl": "kustomize -- prod", "kustomize": "build -- prod"} { // kustomize takes precedence
		if name == "kustomize" {
			install("kubectl", "exit 9\n")
		} else if err := os.RemoveAll(filepath.Join(bin, "kustomize")); err != nil {
			t.Fatal(err)
		}
		install(name, `test "$*" = "`+words+`" && cat <<EOF
`+head+`
EOF
`)
		source, err := input.ReadKustomization(t.Context(), "prod")
		if err != nil {
			t.Fatal(err)
		}
		objects, problems := Load([]input.Source{source}, Options{})
		if len(problems.Errors()) > 0 || len(objects.Pods) != 1 || source.Name != "prod/(kustomization)" {
			t.Errorf("%s: %v, %v", name, objects, problems)
		}
	}
	install("kustomize", "echo 'Error: no such resource' >&2; exit 1\n")
	fails(problem.Manifest, "kustomize build: no such resource")
	install("kustomize", `echo 'E1126 14:38:49.072825   15490 run.go:72] "command failed" err="resource \"a\" is missing"' >&2; exit 1
`)
	fails(problem.Manifest, `kustomize build: resource "a" is missing`)
	install("kustomize", "head -c 100000000 /dev/zero; sleep 600\n")
	fails(problem.Manifest, "its output is larger than")

	install("kustomize", "sleep 600\n")
	stopped, stop := context.WithCancelCause(t.Context())
	ended := errors.New("ended by SIGINT")
	stop(ended)
	if _, err := input.ReadKustomization(stopped, "prod"); !errors.Is(err, ended) {
		t.Errorf("%v", err)
	}
}

// TestCheckKustomizationDir checks that the errors for paths that kustomize cannot build have
// hints with the flag to use.
func TestCheckKustomizationDir(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"empty", "prod"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"web.yaml", "prod/kustomization.yml"} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for dir, want := range map[string][2]string{
		"empty":                  {"kustomization empty: the directory has no kustomization.yaml, kustomization.yml or Kustomization", "use -f empty to read the manifests of the directory"},
		"prod":                   {},
		"web.yaml":               {"kustomization web.yaml: is a file, not a directory", "use -f web.yaml"},
		"prod/kustomization.yml": {"kustomization prod/kustomization.yml: is a file, not a directory", "use -k prod"},
		"prdo":                   {"kustomization prdo: no such directory", "check the path; -k takes a directory with a kustomization.yaml, -f a manifest"},
		"github.com/example/web": {},
		"git@example.com:web":    {},
	} {
		err := input.CheckKustomizationDir("kustomization "+dir, dir)
		e, _ := errors.AsType[*problem.Error](err)
		switch {
		case want[0] == "" && err != nil, want[0] != "" && (e == nil || e.Error() != want[0] || e.Hint != want[1]):
			t.Errorf("%s: %v, want %q", dir, err, want)
		}
	}
}

package manifest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/podrun/podrun/problem"
)

func TestReadKustomization(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("base/pod.yaml", head)
	write("base/kustomization.yaml", "resources: [pod.yaml]\n")
	write("prod/kustomization.yaml", "resources: [../base]\nnamePrefix: prod-\nconfigMapGenerator: [{name: c, literals: [a=b]}]\n")
	source, err := ReadKustomization(t.Context(), filepath.Join(dir, "prod"))
	if err != nil {
		t.Fatal(err)
	}
	objects, problems := Load([]Source{source}, Options{})
	if len(problems.Errors()) > 0 || len(objects.Pods) != 1 || objects.Pods[0].Object.Name != "prod-a" || len(objects.ConfigMaps) != 1 {
		t.Errorf("%v, %v", objects, problems)
	}

	write("large/kustomization.yaml", "resources: [pod.yaml]\n")
	write("large/pod.yaml", strings.Repeat("#", MaxSource+1))
	write("outside/kustomization.yaml", "resources: [../base/pod.yaml]\n")
	write("fifo/kustomization.yaml", "resources: [pod.yaml]\n")
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo/pod.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"none": "", "large": "is too large", "outside": "is not in or below", "fifo": "is not a regular file",
	} {
		_, err := ReadKustomization(t.Context(), filepath.Join(dir, name))
		if e, ok := errors.AsType[*problem.Error](err); !ok || e.Kind != problem.Manifest || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	stopped, stop := context.WithCancelCause(t.Context())
	stop(errors.New("ended by SIGINT"))
	if _, err := ReadKustomization(stopped, filepath.Join(dir, "none")); err == nil {
		t.Error("no error")
	}
}

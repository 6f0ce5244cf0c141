package script

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/podrun/podrun/test/ring"
)

// TestRecipes executes the steps in the documents (hack/recipe) on a real runtime. The directory of
// a script contains the examples and an archive of busybox. Blocks that change the host's services
// run in a guest instead.
func TestRecipes(t *testing.T) {
	ring.Require(t, 2)
	h := &harness{
		endpoint: os.Getenv("CONTAINER_RUNTIME_ENDPOINT"), cgroupRoot: os.Getenv("PODRUN_CGROUP_ROOT"),
		registry: os.Getenv("PODRUN_TEST_REGISTRY"), image: os.Getenv("PODRUN_TEST_IMAGE"), httpImage: os.Getenv("PODRUN_TEST_HTTP_IMAGE"),
	}
	archive := filepath.Join(os.Getenv("PODRUN_TEST_ARCHIVES"), "busybox-1.36.tar")
	if h.endpoint == "" || archive == "busybox-1.36.tar" {
		t.Skip("no container runtime: CONTAINER_RUNTIME_ENDPOINT and PODRUN_TEST_ARCHIVES are not set")
	}
	mustRun(t, "podrun", "image", "load", archive)
	t.Cleanup(func() { mustRun(t, "podrun", "image", "rm", "--force", "busybox:1.36") })
	params := h.params()
	params.Dir, params.Files = writeRecipes(t, archive), nil
	testscript.Run(t, params)
}

// writeRecipes writes a script for each document with steps, and returns their directory.
func writeRecipes(t *testing.T, archive string) string {
	t.Helper()
	dir := t.TempDir()
	mustRun(t, "go", "build", "-o", filepath.Join(dir, "recipe"), "./hack/recipe")
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Abs("examples")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "README.md") {
		script := mustRun(t, filepath.Join(dir, "recipe"), page)
		if !strings.Contains(script, "\nstep="+"'") {
			continue
		}
		name := "docs-" + strings.ToLower(strings.TrimSuffix(filepath.Base(page), ".md"))
		text := fmt.Sprintf("exec cp %s busybox.tar\nexec cp -r %s examples\nexec bash recipe.sh\n-- recipe.sh --\n%s", archive, examples, script)
		if err := os.WriteFile(filepath.Join(dir, name+".txtar"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func mustRun(t *testing.T, name string, args ...string) (stdout string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

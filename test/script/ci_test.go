package script

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"sigs.k8s.io/yaml"

	"github.com/podrun/podrun/test/ring"
)

// TestCIExamples runs the podrun commands of the examples in docs/ci.md for GitHub, GitLab and
// Jenkins on a real runtime. It runs the commands of each example in order and with the example's
// variables. In this test, sudo is a script that runs its arguments.
func TestCIExamples(t *testing.T) {
	ring.Require(t, 2)
	blocks := namedBlocks(t, "docs/ci.md")
	var gitlab map[string]struct {
		Script      []string
		AfterScript []string `json:"after_script"`
		Retry       struct {
			ExitCodes []int `json:"exit_codes"`
		}
	}
	if err := yaml.Unmarshal([]byte(blocks[".gitlab-ci.yml"]), &gitlab); err != nil {
		t.Fatal(err)
	}
	var jenkins []string
	for _, m := range regexp.MustCompile(`(?m)^ *sh '([^']*)'$`).FindAllStringSubmatch(blocks["Jenkinsfile"], -1) {
		jenkins = append(jenkins, m[1])
	}
	examples := map[string][]string{
		"gitlab":  append(gitlab["test"].Script, gitlab["test"].AfterScript...),
		"jenkins": jenkins,
		"github":  {githubStep(t, blocks[".github/workflows/test.yaml"])},
	}
	codes, err := os.ReadFile("docs/exit-codes.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range gitlab["test"].Retry.ExitCodes {
		if !strings.Contains(string(codes), fmt.Sprintf("\n| %d | ", code)) {
			t.Errorf("docs/exit-codes.md has no code %d", code)
		}
	}
	for name, commands := range examples {
		if podruns := strings.Count(strings.Join(commands, "\n"), "podrun run") + strings.Count(strings.Join(commands, "\n"), "/hack/action"); podruns != 1 {
			t.Errorf("%s: %d runs of a pod, want 1: %q", name, podruns, commands)
		}
	}
	archive := filepath.Join(os.Getenv("PODRUN_TEST_ARCHIVES"), "busybox-1.36.tar")
	h := &harness{endpoint: os.Getenv("CONTAINER_RUNTIME_ENDPOINT"), cgroupRoot: os.Getenv("PODRUN_CGROUP_ROOT"), registry: os.Getenv("PODRUN_TEST_REGISTRY"),
		image: os.Getenv("PODRUN_TEST_IMAGE"), httpImage: os.Getenv("PODRUN_TEST_HTTP_IMAGE")}
	if h.endpoint == "" || archive == "busybox-1.36.tar" {
		t.Skip("no container runtime: CONTAINER_RUNTIME_ENDPOINT and PODRUN_TEST_ARCHIVES are not set")
	}
	mustRun(t, "podrun", "image", "load", archive)
	t.Cleanup(func() { mustRun(t, "podrun", "image", "rm", "--force", "busybox:1.36") })
	params := h.params()
	params.Dir, params.Files = t.TempDir(), nil
	for name, commands := range examples {
		text := "exec bash job.sh\njunit podrun.xml\nstdout '^podrun.test test$'\nexec grep '^\\[test\\] ready$' podrun.log\nexec cat report.xml\n" +
			"podrun get -A\n! stdout 'job-17'\n-- job.sh --\nset -euo pipefail\nsudo() { while [[ $1 == -* ]]; do shift; done; \"$@\"; }\n" +
			"export CI_JOB_ID=17 BUILD_NUMBER=17 CI_PROJECT_DIR=$PWD WORKSPACE=$PWD GITHUB_OUTPUT=$PWD/outputs\n" + strings.Join(commands, "\n") +
			"\n-- test.sh --\nwget -qO- http://127.0.0.1:8080/ && echo '<testsuite/>' >report.xml\n-- ci.yaml --\n" + blocks["ci.yaml"] + "\n"
		if err := os.WriteFile(filepath.Join(params.Dir, "ci-"+name+".txtar"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	testscript.Run(t, params)
}

// namedBlocks returns the code blocks of a page that have a name after the language.
func namedBlocks(t *testing.T, page string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, m := range regexp.MustCompile("(?ms)^```(?:yaml|groovy) (\\S+)(?: not-run)?\n(.*?)\n```$").FindAllStringSubmatch(string(text), -1) {
		out[m[1]] = m[2]
	}
	for _, name := range []string{"ci.yaml", ".github/workflows/test.yaml", ".gitlab-ci.yml", "Jenkinsfile"} {
		if out[name] == "" {
			t.Fatalf("%s has no block %s", page, name)
		}
	}
	return out
}

// githubStep returns a command that is equivalent to the workflow's step, which uses the action.
// The command uses the podrun binary of this test.
func githubStep(t *testing.T, workflow string) string {
	t.Helper()
	var def struct {
		Jobs map[string]struct {
			Steps []struct {
				Uses string
				With map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(workflow), &def); err != nil {
		t.Fatal(err)
	}
	var action struct {
		Inputs map[string]struct{ Default string }
	}
	data, err := os.ReadFile("action.yml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, &action); err != nil {
		t.Fatal(err)
	}
	for _, step := range def.Jobs["test"].Steps {
		if !strings.HasPrefix(step.Uses, "podrun/podrun@") {
			continue
		}
		var inputs []string
		for name := range step.With {
			if _, ok := action.Inputs[name]; !ok {
				t.Errorf("action.yml has no input %s", name)
			}
		}
		for name := range action.Inputs {
			value := step.With[name]
			if name == "path" {
				value = "$(command -v podrun)"
			}
			inputs = append(inputs, fmt.Sprintf(`INPUT_%s="%s"`, strings.ToUpper(strings.ReplaceAll(name, "-", "_")), value))
		}
		slices.Sort(inputs)
		script, err := filepath.Abs("hack/action")
		if err != nil {
			t.Fatal(err)
		}
		return "ACTION_REF= GITHUB_WORKSPACE=$PWD " + strings.Join(inputs, " ") + " " + script
	}
	t.Fatal("no step uses the action")
	return ""
}

package manifest

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest/input"
)

// verdicts lists the files of the corpus for which podrun's result differs from the corpus and
// is correct, with the reason.
var verdicts = map[string]struct{ want, why string }{
	"A/kubernetes__content__en__examples__pods__emptydir-volume-mode.yaml": {
		"reject-strict", "emptyDir.mode is a field of v1.37; podrun has the API of v1.36"},
	"F/yannh__fixtures__extra_property.yaml": {
		"reject", "the corpus decodes a DaemonSet only; its selector does not match its template"},
}

// gists lists podrun's messages for files whose messages in the corpus mention Go types, or a
// version that podrun does not have.
var gists = map[string]string{
	"F/jenkinsci__src__test__resources__org__csanchez__jenkins__plugins__kubernetes__pod-overrides.yaml": "kind is missing",
	"F/kubernetes-sigs__testcases__manifests__error_array_instead_of_map.yaml":                           "data: must be a map, not a list",
	"F/kubernetes-sigs__testcases__manifests__error_invalid_kind.yaml":                                   "kind: podrun does not read kind configmap of v1 (did you mean ConfigMap?)",
	"F/kubernetes-sigs__testcases__manifests__error_invalid_protocol_type.yaml":                          "spec.containers[0].ports[0].protocol: must be a string, not a number",
	// podrun limits the size of a document before it parses the document.
	"F/kubernetes__TestYAMLLimits__3MB-map-with-alias.yaml": "the document is larger than 3 MiB",
	"F/kubernetes__TestYAMLLimits__deeply-nested-maps.yaml": "the document is larger than 3 MiB",
	"F/yaml__2G84__00__in.yaml":                             ":1: not valid YAML",
	"F/yaml__9JBA__in.yaml":                                 "expected an object with apiVersion and kind, got a list",
	"F/yaml__CC74__in.VALID-YAML.yaml":                      "expected an object with apiVersion and kind, got a string", // podrun supports directives
	"F/yaml__CVW2__in.yaml":                                 "expected an object with apiVersion and kind, got a list",
	"F/yaml__E76Z__in.VALID-YAML.yaml":                      "kind is missing",
	"F/yaml__N782__in.yaml":                                 ":2: not valid YAML",
	"F/yaml__U99R__in.yaml":                                 "expected an object with apiVersion and kind, got a list",
	"F/yaml__V55R__in.VALID-YAML.yaml":                      "expected an object with apiVersion and kind, got a list",
	"F/yannh__fixtures__missing_kind.yaml":                  "kind is missing",
	"F/yannh__fixtures__missing_kind_value.yaml":            "kind is missing",
}

// TestCorpus compares podrun's results for real manifests with the results of the Kubernetes
// code. As in the corpus, it ignores Services and similar kinds, and does not count a pod from
// a template.
func TestCorpus(t *testing.T) {
	shared := os.Getenv("PODRUN_SHARED")
	if shared == "" {
		shared = filepath.Join("..", "..", "shared")
	}
	index, err := os.Open(filepath.Join(shared, "corpus", "INDEX.tsv"))
	if err != nil {
		t.Skipf("the corpus of real manifests is missing (PODRUN_SHARED names its parent): %v", err)
	}
	defer index.Close()
	r := csv.NewReader(index)
	r.Comma = '\t'
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	agreed, differ := 0, 0
	for _, row := range rows[1:] {
		file, want, reason := row[3], row[6], row[7]
		if other, ok := verdicts[file]; ok {
			t.Logf("%s: %s for %s: %s", file, other.want, want, other.why)
			want = other.want
			differ++
		}
		data, err := os.ReadFile(filepath.Join(shared, "corpus", file))
		if err != nil {
			t.Fatal(err)
		}
		got, problems := verdict(input.Source{Name: file, Data: data})
		if got != want {
			t.Errorf("%s: %s, want %s (%s)\n%s", file, got, want, reason, problems)
			continue
		}
		if want == "reject" || want == "reject-strict" {
			saysGist(t, file, reason, problems)
		}
		agreed++
	}
	t.Logf("%d of %d verdicts as expected, %d of them for a reason of podrun's own", agreed, len(rows)-1, differ)
}

// verdict returns podrun's result in the terms of the corpus.
func verdict(s input.Source) (string, problem.List) {
	reasons := func(l problem.List) map[string]bool {
		out := map[string]bool{}
		for _, p := range l {
			out[p.Reason] = true
		}
		return out
	}
	objects, problems := Load([]input.Source{s}, Options{IgnoreUnknownKinds: true})
	// Load accepts ephemeral containers, but the plan of a new pod refuses them.
	for _, p := range objects.Pods {
		if len(p.Object.Spec.EphemeralContainers) > 0 {
			return "reject", append(problems, problem.Problem{Field: "spec.ephemeralContainers", Message: EphemeralOnCreate})
		}
	}
	switch found := reasons(problems); {
	case found["NoPod"] && len(problems.Errors()) == 1 && len(objects.ConfigMaps)+len(objects.Secrets) > 0:
		return "accept", problems
	case found["NoPod"] && len(problems.Errors()) == 1 && len(objects.Claims) > 0:
		return "nonpod", problems
	case len(problems.Errors()) == 0 && slices.ContainsFunc(objects.Pods, func(p Pod) bool { return p.From != "" }):
		return "nonpod", problems
	case len(problems.Errors()) == 0:
		return "accept", problems
	}
	_, loose := Load([]input.Source{s}, Options{IgnoreUnknownKinds: true, Validate: Warn})
	if len(loose.Errors()) == 0 {
		return "reject-strict", problems
	}
	return "reject", problems
}

var (
	unknownField = regexp.MustCompile(`unknown field "([^"]+)"`)
	yamlError    = regexp.MustCompile(`^YAML parse: yaml: (?:line (\d+): )?(.*)$`)
	fieldError   = regexp.MustCompile(`^validation: \[?([^ ]+: .*?)(?:, spec\..*|\]|$)`)
)

// saysGist checks that a problem corresponds to the reason in the corpus, and has the same
// field and line.
func saysGist(t *testing.T, file, reason string, problems problem.List) {
	t.Helper()
	text := problems.Errors().String()
	var wants []string
	switch m := fieldError.FindStringSubmatch(reason); {
	case gists[file] != "":
		wants = append(wants, gists[file])
	case m != nil:
		wants = append(wants, strings.TrimSuffix(m[1], "]"))
	case strings.HasPrefix(reason, "YAML parse: "):
		y := yamlError.FindStringSubmatch(reason)
		wants = append(wants, "not valid YAML: "+y[2])
		if line, err := strconv.Atoi(y[1]); err == nil {
			if strings.HasPrefix(y[2], "did not find expected") {
				// For these errors, the library counts lines from 0.
				line++
			}
			wants[0] = fmt.Sprintf(":%d: %s", line, wants[0])
		}
	case strings.Contains(reason, "unknown field"):
		for _, m := range unknownField.FindAllStringSubmatch(reason, -1) {
			wants = append(wants, m[1]+": unknown field")
		}
	default:
		wants = append(wants, reason)
	}
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%s: no problem contains %q:\n%s", file, want, text)
		}
	}
}

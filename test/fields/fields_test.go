package fields

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/podrun/podrun/manifest"
)

var update = flag.Bool("update", false, "write docs/pod-fields.md")

// rowOf returns the row for a field: the one with the longest matching path.
func rowOf(path string) (row, bool) {
	var best row
	for _, r := range rows {
		if below(path, r.path) && len(r.path) > len(best.path) {
			best = r
		}
	}
	return best, best.path != ""
}

// claim returns the class of a field. If a field of an init container has no row, the row for
// the same field of an app container applies.
func claim(path string) row {
	r, _ := rowOf(path)
	if rest, of := strings.CutPrefix(path, "spec.initContainers[]"); of && r.path == "spec.initContainers[]" {
		r, _ = rowOf("spec.containers[]" + rest)
	}
	return r
}

// TestSupported changes each supported field in pods that set it, and checks whether
// podrun's actions change.
func TestSupported(t *testing.T) {
	if bad := manifest.SetGates(gates); len(bad) > 0 {
		t.Fatal(bad)
	}
	tried := map[string]string{}
	for _, pod := range slices.Concat(examples(t), sidecars(t)) {
		base := outcomeOf(t, pod)
		if errs := base.problems.Errors(); len(base.invalid)+len(errs) > 0 {
			t.Fatal(base.invalid, errs)
		}
		for _, l := range leaves() {
			if how, seen := tried[l.path]; seen && how == "" || len(places(pod, l.path)) == 0 {
				continue
			}
			var ok bool
			if ok, tried[l.path] = matters(t, pod, base.does, l); ok {
				tried[l.path] = ""
			}
		}
	}
	proven := 0
	for _, l := range leaves() {
		r := claim(l.path)
		how, seen := tried[l.path]
		switch {
		case r.class != supported || r.fixed || r.test != "":
		case !seen:
			t.Errorf("%s is supported, but no pod of testdata/pods.yaml sets it", l.path)
		case how != "":
			t.Errorf("%s is supported, but changing it %s", l.path, how)
		default:
			proven++
		}
	}
	t.Logf("%d of %d fields: changing them changes what podrun does", proven, len(leaves()))
}

// TestOthers checks the claims about fields that are not supported.
func TestOthers(t *testing.T) {
	for _, r := range rows {
		if r.class == supported {
			continue
		}
		t.Run(r.path, func(t *testing.T) {
			pod := with(t, r.try)
			got := outcomeOf(t, pod)
			errs := append(got.invalid, got.problems.Errors()...)
			switch {
			case r.class == refused:
				if !says(errs, r.path, r.says) {
					t.Errorf("want it refused with %q; got %v", r.says, errs)
				}
			case len(errs) > 0:
				t.Fatal(errs)
			case r.class == warned:
				if !says(got.problems.Warnings(), r.path, r.says) {
					t.Errorf("want a warning with %q; got %v", r.says, got.problems.Warnings())
				}
			default:
				idle(t, r, pod, got)
			}
		})
	}
}

// idle checks that neither the presence nor the values of a row's fields affect podrun's actions,
// and that podrun does not print a warning about them.
func idle(t *testing.T, r row, pod any, before outcome) {
	t.Helper()
	if says(before.problems.Warnings(), r.path, "") {
		t.Errorf("%s, and the warnings are %v", r.class, before.problems.Warnings())
	}
	for _, l := range leaves() {
		if of, _ := rowOf(l.path); of.path != r.path || strings.HasSuffix(l.path, ".namespaceSelector") {
			continue
		}
		if len(places(pod, l.path)) == 0 {
			t.Errorf("%s is not tested", l.path)
		}
		if does, _ := matters(t, pod, before.does, l); does && !r.fixed {
			t.Errorf("%s changes what podrun does", l.path)
		}
	}
	for _, p := range places(pod, r.path) {
		undo := p.set(gone{})
		if without := outcomeOf(t, pod); len(without.invalid) == 0 && without.does != before.does {
			t.Error("without the field, podrun does something else")
		}
		undo()
	}
}

// TestElsewhere checks that the tests that the rows name exist.
func TestElsewhere(t *testing.T) {
	for _, r := range rows {
		if r.test == "" {
			continue
		}
		in, name, _ := strings.Cut(r.test, ".")
		files, err := filepath.Glob(filepath.Join("..", "..", in, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := slices.ContainsFunc(files, func(f string) bool {
			raw, err := os.ReadFile(f)
			return err == nil && strings.Contains(string(raw), "func "+name+"(")
		})
		if !found {
			t.Errorf("%s: there is no test %s", r.path, r.test)
		}
	}
}

// examples are the pods in testdata.
func examples(t *testing.T) []any {
	t.Helper()
	raw, err := os.ReadFile("testdata/pods.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var out []any
	for doc := range strings.SplitSeq(string(raw), "\n---\n") {
		data, err := yaml.YAMLToJSON([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, decoded(t, data))
	}
	return out
}

// sidecars are the pods in testdata that have several containers. In each, all containers
// except the last one are converted to sidecars.
func sidecars(t *testing.T) []any {
	t.Helper()
	out := examples(t)
	for _, pod := range out {
		spec := pod.(map[string]any)["spec"].(map[string]any)
		list := spec["containers"].([]any)
		if len(list) < 2 {
			continue
		}
		init, _ := spec["initContainers"].([]any)
		for _, c := range list[:len(list)-1] {
			c := c.(map[string]any)
			c["restartPolicy"] = "Always"
			delete(c, "restartPolicyRules")
			init = append(init, c)
		}
		spec["initContainers"], spec["containers"] = init, list[len(list)-1:]
	}
	return out
}

// with returns a minimal pod with the given part added.
func with(t *testing.T, part string) any {
	t.Helper()
	pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p", "uid": "0b5fb0f5-3b1c-4d5a-9d5d-2f1b5b1e9c11"}, "spec": map[string]any{
		"containers":  []any{map[string]any{"name": "app", "image": "i"}},
		"tolerations": []any{map[string]any{"operator": "Exists"}},
	}}
	data, err := yaml.YAMLToJSON([]byte(part))
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range decoded(t, data).(map[string]any) {
		maps.Copy(pod[key].(map[string]any), value.(map[string]any))
	}
	return pod
}

// explained is the file with the claims that podrun explain prints for fields.
const explained = "../../internal/fielddoc/claims.txt"

// TestPage checks that every field has a row, that every row has a field, and that the page has
// the same rows.
func TestPage(t *testing.T) {
	fields, count := map[string][]string{}, map[class]int{}
	for _, l := range leaves() {
		r, ok := rowOf(l.path)
		if !ok {
			t.Errorf("%s has no row", l.path)
		}
		count[claim(l.path).class]++
		fields[r.path] = append(fields[r.path], strings.TrimPrefix(strings.TrimPrefix(l.path, r.path), "."))
	}
	var table, claims strings.Builder
	for _, r := range rows {
		if len(fields[r.path]) == 0 {
			t.Errorf("%s: the API has no such field", r.path)
		}
		list := strings.Join(fields[r.path], ", ")
		if r.path == "spec.initContainers[]" || strings.Contains(r.path, "ephemeralContainers[]") {
			list = "all others of spec.containers[]"
		}
		if len(fields[r.path]) == 1 && strings.Trim(list, "[]") == "" {
			list = ""
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", r.path, r.class, list, r.note)
		fmt.Fprintf(&claims, "%s\t%s\t%s\n", r.path, r.class, strings.ReplaceAll(r.note, "`", "'"))
	}
	page, err := os.ReadFile("../../docs/pod-fields.md")
	if err != nil && !*update {
		t.Fatal(err)
	}
	text := between(string(page), "fields", table.String())
	text = between(text, "counts", fmt.Sprintf("%d fields: %d are supported, %d refused, %d ignored with a warning, %d have no effect, %d are left out.\n",
		len(leaves()), count[supported], count[refused], count[warned], count[noEffect], count[leftOut]))
	if *update {
		if err := errors.Join(os.WriteFile("../../docs/pod-fields.md", []byte(text), 0o644), os.WriteFile(explained, []byte(claims.String()), 0o644)); err != nil {
			t.Fatal(err)
		}
		return
	}
	if have, err := os.ReadFile(explained); err != nil || text != string(page) || claims.String() != string(have) {
		t.Errorf("docs/pod-fields.md or %s is not current (%v): go test ./test/fields -run TestPage -update", explained, err)
	}
}

// between returns a page in which the text between two marks is replaced.
func between(page, mark, text string) string {
	re := regexp.MustCompile(`(?s)(<!-- ` + mark + ` -->\n).*?(<!-- /` + mark + ` -->)`)
	return re.ReplaceAllStringFunc(page, func(whole string) string {
		m := re.FindStringSubmatch(whole)
		return m[1] + text + m[2]
	})
}

package nodeconfig

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestSettingsPage checks that the example in docs/settings.md is valid. It also checks that
// the page lists every field of a PodrunConfiguration.
func TestSettingsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	var example strings.Builder
	for line := range strings.Lines(string(page)) {
		if rest, ok := strings.CutPrefix(line, "    "); ok {
			example.WriteString(rest)
		}
	}
	s, problems := Parse([]byte(example.String()), Default())
	if len(problems) > 0 || s.MaxPods != 40 || len(s.Sources) != 1 {
		t.Errorf("the example: maxPods %d, sources %q, problems: %s", s.MaxPods, s.Sources, problems)
	}
	for field := range reflect.TypeFor[PodrunConfiguration]().Fields() {
		if name := field.Tag.Get("json"); !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/settings.md lacks the field %s", name)
		}
	}
}

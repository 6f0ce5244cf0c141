package identity

import "testing"

func TestSchema(t *testing.T) {
	for text, want := range map[string]struct {
		content string
		version int
	}{
		"":                         {"", 0},
		"Pending":                  {"Pending", 0},
		`{"a":1}`:                  {`{"a":1}`, 0},
		"# podrun schema 1\nDone":  {"Done", 1},
		"# podrun schema 7\n":      {"", 7},
		"# podrun schema 7":        {"# podrun schema 7", 0},
		"# podrun schema x\nDone":  {"# podrun schema x\nDone", 0},
		"# podrun schema -1\nDone": {"# podrun schema -1\nDone", 0},
		"# podrun pod a/b\n# podrun schema 3\n{}":    {"{}", 3},
		"# podrun pod a/b\n# x\n# podrun schema 3\n": {"# podrun pod a/b\n# x\n# podrun schema 3\n", 0},
		"# podrun pod a/b\n{}":                       {"# podrun pod a/b\n{}", 0},
		"# podrun schema 1\n# podrun s\n":            {"# podrun s\n", 1},
	} {
		content, version := CutSchema([]byte(text))
		if string(content) != want.content || version != want.version {
			t.Errorf("%q: %q of version %d, want %q of %d", text, content, version, want.content, want.version)
		}
	}
	if content, version := CutSchema(AddSchema(2, []byte("x"))); string(content) != "x" || version != 2 {
		t.Errorf("%q of version %d", content, version)
	}
}

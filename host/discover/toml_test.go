package discover

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTOMLValues(t *testing.T) {
	text := `# comment
top = 1 # one
"quoted key" = 'literal \\ text'
a.b = true
[crio]
  root = "" # empty
	[crio.image] # table
pause_image = "a\"b\u00e9"
[crio.runtime]
list = [
  "one", # comment, with ] and "
  'two',
]
none = []
nested = [["a"], ["b"]]
long = """
first
second \""" end"""
raw = '''c:\x'''
size = 9223372036854775807
[crio.runtime.runtimes."my.crun"]
container_min_memory = "500KiB"
[[crio.tables]]
key = "in an array"
[crio.network]
network_dir="/a/"`
	got, err := tomlValues(text)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"top": {"1"}, "quoted key": {`literal \\ text`}, "a.b": {"true"}, "crio.root": {""}, "crio.image.pause_image": {"a\"bé"},
		"crio.runtime.list": {"one", "two"}, "crio.runtime.none": {}, "crio.runtime.nested": {"a", "b"}, "crio.runtime.long": {"first\nsecond \"\"\" end"},
		"crio.runtime.raw": {`c:\x`}, "crio.runtime.size": {"9223372036854775807"}, "crio.runtime.runtimes.my.crun.container_min_memory": {"500KiB"},
		"[].key": {"in an array"}, "crio.network.network_dir": {"/a/"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTOMLErrors(t *testing.T) {
	for text, want := range map[string]string{
		"a = 1\nb":                         "line 2: expected a key and its value",
		"a = \"x\nb = 1":                   "line 1: expected the end of a string",
		"[a\nb = 1":                        "line 1: expected a table's name",
		"a = ":                             "line 1: expected a value",
		"a = [1, 2":                        "line 1: expected the end of a list",
		"a = [1 2]\nb = \"\" x":            "line 2: expected the end of the line",
		"a = {b = 1}":                      "line 1: expected a value that is no table in a line",
		"a = \"\\q\"":                      "line 1: expected escapes of a string",
		"a = " + strings.Repeat("[", 1000): "too many lists in lists",
		"= 1":                              "line 1: expected a key",
	} {
		if _, err := tomlValues(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
}

// FuzzTOML: whatever a configuration has, it is read in the time that its size takes.
func FuzzTOML(f *testing.F) {
	for _, seed := range []string{"a = [\"b\", 'c'] # d", "[x.\"y\"]\nz = \"\"\"1\"\"\"", "[[a]]\nb = {", "\\"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := tomlValues(text); err != nil && err.Error() == "" {
			t.Error("an error says nothing")
		}
	})
}

package grammar

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest/input"
)

func TestSuggestFile(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.Mkdir("manifests", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"svc.yaml", "two.yaml", "two.json", "manifests/web.yaml"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("gone", "link.yaml"); err != nil {
		t.Fatal(err)
	}
	const unchanged = "check the path"
	for line, want := range map[string]string{
		"apply svc.yml":                       "did you mean svc.yaml? 'podrun apply svc.yaml'",
		"apply -q -f svc.ymal":                "did you mean svc.yaml? 'podrun apply -q -f svc.yaml'",
		"apply --filename=svc":                "did you mean svc.yaml? 'podrun apply --filename=svc.yaml'",
		"apply a,svc.yml":                     "did you mean svc.yaml?",
		"apply manifest/web.yaml":             "did you mean manifests/web.yaml? 'podrun apply manifests/web.yaml'",
		"diff hello":                          "name a manifest, for example 'podrun diff hello.yaml'; to print the definition of a pod, run 'podrun get pod hello -o yaml'",
		"create nginx":                        "name a manifest with -f; to start a pod from an image, run 'podrun run -d IMAGE'",
		"apply manifests/*.json":              "no file matches the pattern: use -f manifests to read all manifests of the directory",
		"apply nope/*.json":                   "the current directory has no nope",
		"apply two.yml":                       unchanged,
		"apply nothing.yaml":                  unchanged,
		"apply link.yaml":                     unchanged,
		"apply no/such/dir/web.yaml":          "the current directory has no no",
		"apply " + dir + "/nope/dir/":         dir + " exists, but " + filepath.Join(dir, "nope") + " does not",
		"apply manifests/nope/dir/other.yaml": "manifests exists, but manifests/nope does not",
	} {
		typed := Line{Typed: strings.Fields(line)}
		file := typed.Typed[len(typed.Typed)-1]
		file = strings.TrimPrefix(file[strings.LastIndex(file, ",")+1:], "--filename=")
		p := problem.Problem{File: file, Reason: input.ReasonUnreadable, Message: "no such file or directory", Hint: unchanged}
		if typed.SuggestFile(&p); p.Hint != want {
			t.Errorf("%s: %q, want %q", line, p.Hint, want)
		}
	}
}

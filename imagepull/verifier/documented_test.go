package verifier

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocumentedPrograms runs the programs in docs/security.md, with a script in the place of cosign and notation. It accepts
// signed images only.
func TestDocumentedPrograms(t *testing.T) {
	page, err := os.ReadFile("../../docs/security.md")
	do(t, err)
	_, section, _ := strings.Cut(string(page), "\n## Verified images\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?s)```sh not-run\n(.*?)```").FindAllStringSubmatch(section, -1)
	other := regexp.MustCompile("For notation, the last line is `(exec notation .*?)`").FindStringSubmatch(section)
	if len(blocks) != 2 || other == nil {
		t.Fatalf("%d programs, %q", len(blocks), other)
	}
	cosign, list := blocks[0][1], blocks[1][1]
	last := regexp.MustCompile(`(?m)^exec cosign .*$`)
	notation := last.ReplaceAllLiteralString(cosign, other[1])
	if notation == cosign {
		t.Fatalf("no last line: %s", cosign)
	}
	files := t.TempDir()
	const digest = "sha256:aaaa"
	for name, c := range map[string]struct{ program, want string }{
		"cosign":   {cosign, "verify --key /etc/podrun/cosign.pub --insecure-ignore-tlog=true "},
		"notation": {notation, "verify "},
	} {
		stub := filepath.Join(files, name)
		write(t, stub, `echo "$*"; test "$*" = "`+c.want+`registry.example:5000/site/web@`+digest+`"`, 0o755)
		dir := directory(t, map[string]string{"check": strings.Replace(c.program, "exec "+name+" ", "exec "+stub+" ", 1)})
		for image, accepted := range map[string]bool{
			"registry.example:5000/site/web:1":           true,
			"registry.example:5000/site/web":             true,
			"registry.example:5000/site/web@" + digest:   true,
			"registry.example:5000/site/web:1@" + digest: true,
			"registry.example:5000/site/other:1":         false,
			"registry.example/site/web:1":                false,
		} {
			err := find(t, dir).Verify(t.Context(), Image{Name: image, Digest: digest})
			if (err == nil) != accepted || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %s: %v", name, image, err)
			}
		}
		if err := find(t, dir).Verify(t.Context(), Image{Name: "registry.example:5000/site/web:1", Digest: "sha256:bbbb"}); err == nil {
			t.Errorf("%s: another digest is accepted", name)
		}
	}
	digests := filepath.Join(files, "digests")
	do(t, os.WriteFile(digests, []byte("sha256:aaaaa\n"+digest+"\n"), 0o600))
	dir := directory(t, map[string]string{"check": strings.ReplaceAll(list, "/etc/podrun/allowed-digests", digests)})
	for digest, accepted := range map[string]bool{digest: true, "sha256:aaa": false, "sha256:bbbb": false, ".*": false} {
		if err := find(t, dir).Verify(t.Context(), Image{Name: "web", Digest: digest}); (err == nil) != accepted {
			t.Errorf("%s: %v", digest, err)
		}
	}
}

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// parsed contains the fields of a statement that the tests check.
type parsed struct {
	Type    string `json:"_type"`
	Subject []struct {
		Name   string
		Digest map[string]string
	}
	PredicateType string
	Predicate     struct {
		BuildDefinition struct {
			BuildType            string
			ExternalParameters   map[string]any
			ResolvedDependencies []struct {
				Name, URI string
				Digest    map[string]string
			}
		}
		RunDetails struct{ Builder struct{ ID string } }
	}
}

// TestStatement describes the files of a directory and the test's own program twice. The
// results must be equal.
func TestStatement(t *testing.T) {
	t.Chdir("../..")
	dir := release(t)
	b := build{Version: "0.1.0", Commit: strings.Repeat("ab", 20), Archs: []string{"amd64", "arm64"}, Nfpm: "example.org/nfpm@v2.0.0", Sums: map[string]string{}}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.readBinary(self); err != nil {
			t.Fatal(err)
		}
	}
	var text, again bytes.Buffer
	if err := run(&text, b, dir); err != nil {
		t.Fatal(err)
	}
	if err := run(&again, b, dir); err != nil || text.String() != again.String() {
		t.Errorf("the second statement differs: %v\n%s\n%s", err, &text, &again)
	}
	var got parsed
	if err := json.Unmarshal(text.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	definition := got.Predicate.BuildDefinition
	if got.Type != "https://in-toto.io/Statement/v1" || got.PredicateType != "https://slsa.dev/provenance/v1" ||
		definition.BuildType != buildType || definition.ExternalParameters["version"] != "0.1.0" || got.Predicate.RunDetails.Builder.ID != builderID {
		t.Errorf("got\n%s", &text)
	}
	subjects := map[string]string{}
	for _, s := range got.Subject {
		subjects[s.Name] = s.Digest["sha256"]
	}
	if len(subjects) != 2 || subjects[archive] != hashOf(t, filepath.Join(dir, archive)) || subjects["b.deb"] != hashOf(t, dir+"/b.deb") {
		t.Errorf("subjects %v", subjects)
	}
	dependencies := map[string]map[string]string{}
	for _, d := range definition.ResolvedDependencies {
		if _, twice := dependencies[d.Name+d.URI]; twice {
			t.Errorf("%s%s is listed twice", d.Name, d.URI)
		}
		dependencies[d.Name+d.URI] = d.Digest
	}
	if d := dependencies["sourcegit+https://github.com/podrun/podrun"]; d["gitCommit"] != b.Commit {
		t.Errorf("commit %v", d)
	}
	if d := dependencies["embedded/bundle/go.sum"]; d["sha256"] != hashOf(t, "embedded/bundle/go.sum") {
		t.Errorf("embedded/bundle/go.sum %v", d)
	}
	if _, ok := dependencies["gopkg:generic/go@"+strings.TrimPrefix(b.Go, "go")]; !ok || b.Go == "" {
		t.Errorf("no Go %q", b.Go)
	}
	found := false
	for uri, d := range dependencies {
		found = found || strings.HasPrefix(uri, "pkg:golang/google.golang.org/protobuf@") && len(d["dirHash"]) == 64
	}
	if !found {
		t.Errorf("no module of this program:\n%s", &text)
	}
}

// TestUncommitted checks that the statement of a checkout with changes does not name the commit.
func TestUncommitted(t *testing.T) {
	sum := strings.Repeat("0", 64)
	text, err := statement(build{Version: "1", Go: "go1.26.0", Sums: map[string]string{"go.sum": sum, "embedded/bundle/go.sum": sum}, Files: []file{{"a", sum}}})
	if err != nil || strings.Contains(string(text), "gitCommit") {
		t.Errorf("%v: %s", err, text)
	}
}

func TestRefused(t *testing.T) {
	sum := strings.Repeat("0", 64)
	good := build{Version: "1", Go: "go1.26.0", Sums: map[string]string{"go.sum": sum, "embedded/bundle/go.sum": sum}, Files: []file{{"a", sum}}}
	for name, tc := range map[string]struct {
		change func(*build)
		want   string
	}{
		"no files":        {func(b *build) { b.Files = nil }, "at least one subject"},
		"digest":          {func(b *build) { b.Files[0].sha256 = "ab" }, "incorrect length"},
		"commit":          {func(b *build) { b.Commit = "main" }, "not valid hex"},
		"sum of a module": {func(b *build) { b.Modules = []module{{"example.org/a", "v1.0.0", ""}} }, "example.org/a@v1.0.0: the sum"},
	} {
		b := good
		b.Files = []file{{"a", sum}}
		tc.change(&b)
		if _, err := statement(b); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestVerify signs a release as hack/release does, and runs the commands of SECURITY.md for one of its
// files. They must succeed; if a byte of a file that they read was changed, one of them must fail.
func TestVerify(t *testing.T) {
	for _, program := range []string{"jq", "ssh-keygen"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(program + " is not installed")
		}
	}
	t.Chdir("../..")
	commands := verification(t)
	dir := release(t)
	var text bytes.Buffer
	if err := run(&text, build{Version: "0.1.0", Go: "go1.26.0", Sums: map[string]string{}}, dir); err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/podrun_0.1.0.provenance.json", text.Bytes())
	must(t, dir, "sha256sum -- * >../SHA256SUMS && mv ../SHA256SUMS .")
	key := filepath.Join(t.TempDir(), "key")
	must(t, ".", "ssh-keygen -q -t ed25519 -N '' -C '' -f "+key)
	signers := "release@podrun.dev namespaces=\"file\" " + read(t, key+".pub")
	write(t, dir+"/allowed_signers", []byte(signers))
	t.Setenv("ALLOWED_SIGNERS", dir+"/allowed_signers")
	t.Setenv("VERSION", "0.1.0")
	must(t, ".", "hack/sign "+key+" "+dir)
	must(t, dir, commands)
	for _, name := range []string{archive, "podrun_0.1.0.provenance.json", "SHA256SUMS", "SHA256SUMS.sig", "allowed_signers"} {
		before := read(t, filepath.Join(dir, name))
		changed := []byte(before)
		changed[len(changed)/2] ^= 1
		write(t, filepath.Join(dir, name), changed)
		if _, err := shell(dir, commands); err == nil {
			t.Errorf("%s with a changed byte is verified", name)
		}
		write(t, filepath.Join(dir, name), []byte(before))
	}

	// The other key may sign only snapshots.
	write(t, dir+"/allowed_signers", nil)
	if out, err := shell(".", "hack/sign "+key+" "+dir); err == nil || !strings.Contains(out, "is not a key of release@podrun.dev") {
		t.Errorf("a release is signed by an unknown key: %v, %s", err, out)
	}
	if _, err := os.Stat(dir + "/SHA256SUMS.sig"); err == nil {
		t.Error("the refused signature is kept")
	}
	t.Setenv("VERSION", "0.1.0-dev.1.g1234567")
	must(t, ".", "hack/sign "+key+" "+dir)
}

// TestReleaseIsSigned checks that hack/release refuses to build a release without a key.
func TestReleaseIsSigned(t *testing.T) {
	t.Chdir("../..")
	t.Setenv("VERSION", "0.1.0")
	t.Setenv("SIGNING_KEY", "")
	dir := filepath.Join(t.TempDir(), "out")
	if out, err := shell(".", "hack/release "+dir); err == nil || !strings.Contains(out, "version 0.1.0 requires") {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the directory was created")
	}
}

// archive is the file that the commands of SECURITY.md verify.
const archive = "podrun-bundle_0.1.0_linux_amd64.tar.gz"

// release creates the files of a release.
func release(t *testing.T) string {
	dir := t.TempDir()
	write(t, filepath.Join(dir, archive), []byte("an archive\n"))
	write(t, dir+"/b.deb", []byte("a package\n"))
	return dir
}

// verification reads the commands of SECURITY.md.
func verification(t *testing.T) string {
	t.Helper()
	_, text, _ := strings.Cut(read(t, "SECURITY.md"), "```sh\n")
	text, _, found := strings.Cut(text, "```")
	if !found || !strings.HasPrefix(text, "file="+archive+"\n") {
		t.Fatalf("SECURITY.md has the commands\n%s", text)
	}
	return text
}

func shell(dir, command string) (string, error) {
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", command)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func must(t *testing.T, dir, command string) {
	t.Helper()
	if out, err := shell(dir, command); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func hashOf(t *testing.T, path string) string {
	sum := sha256.Sum256([]byte(read(t, path)))
	return hex.EncodeToString(sum[:])
}

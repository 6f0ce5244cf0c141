package action

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestVerifyCommands runs the commands of SECURITY.md on releases of a mirror. Each case with an
// attack must fail, although all files that SHA256SUMS lists are correct.
func TestVerifyCommands(t *testing.T) {
	for _, program := range []string{"jq", "ssh-keygen"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(program + " is not installed")
		}
	}
	text, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, commands, _ := strings.Cut(string(text), "```sh\n")
	commands, _, _ = strings.Cut(commands, "```")
	const file, provenance, older = "podrun-bundle_0.1.0_linux_amd64.tar.gz", "podrun_0.1.0.provenance.json", "podrun-bundle_0.0.9_linux_amd64.tar.gz"
	if !strings.Contains(commands, "file="+file+"\nprovenance="+provenance+"\n") {
		t.Fatalf("SECURITY.md has the commands\n%s", commands)
	}
	sum := func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
	subjects := func(pairs ...string) string {
		var list []string
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, fmt.Sprintf(`{"name":%q,"digest":{"sha256":%q}}`, pairs[i], sum(pairs[i+1])))
		}
		return `{"subject":[` + strings.Join(list, ",") + `]}`
	}
	own := subjects(file, "genuine", older, "old")
	sums := func(pairs ...string) (out string) {
		for i := 0; i < len(pairs); i += 2 {
			out += sum(pairs[i+1]) + "  " + pairs[i] + "\n"
		}
		return out
	}
	all := sums(file, "genuine", provenance, own)
	for name, c := range map[string]struct {
		files map[string]string
		// the text of SHA256SUMS that was signed; the default is the text in files
		signed string
		good   bool
	}{
		"genuine":                           {files: map[string]string{file: "genuine", provenance: own, "SHA256SUMS": all}, good: true},
		"another file":                      {files: map[string]string{file: "evil", provenance: own, "SHA256SUMS": all}},
		"the SHA256SUMS of another release": {files: map[string]string{file: "old", older: "old", provenance: own, "SHA256SUMS": sums(older, "old", provenance, own)}},
		"a name that is a prefix":           {files: map[string]string{file: "evil", file + ".txt": "x", provenance: own, "SHA256SUMS": sums(file+".txt", "x", provenance, own)}},
		"changed sums":                      {files: map[string]string{file: "evil", provenance: subjects(file, "evil"), "SHA256SUMS": sums(file, "evil", provenance, subjects(file, "evil"))}, signed: all},
		"a provenance of other files":       {files: map[string]string{file: "genuine", provenance: subjects(older, "old"), older: "old", "SHA256SUMS": sums(file, "genuine", older, "old", provenance, subjects(older, "old"))}},
		"a provenance that is not listed":   {files: map[string]string{file: "genuine", provenance: own, "SHA256SUMS": sums(file, "genuine")}},
		"two digests":                       {files: map[string]string{file: "evil", provenance: own, "SHA256SUMS": all + sums(file, "evil")}},
	} {
		dir := t.TempDir()
		signed := c.signed
		if signed == "" {
			signed = c.files["SHA256SUMS"]
		}
		write(t, filepath.Join(dir, "SHA256SUMS"), signed)
		key := filepath.Join(t.TempDir(), "key")
		for _, args := range [][]string{{"-q", "-t", "ed25519", "-N", "", "-f", key}, {"-Y", "sign", "-q", "-f", key, "-n", "file", filepath.Join(dir, "SHA256SUMS")}} {
			if out, err := exec.Command("ssh-keygen", args...).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
		public, err := os.ReadFile(key + ".pub")
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "allowed_signers"), "release@podrun.dev namespaces=\"file\" "+string(public))
		for file, text := range c.files {
			write(t, filepath.Join(dir, file), text)
		}
		// Each command must succeed; the shell reports only the last command of a pipe, as it does for a user.
		shell := exec.Command("sh", "-e", "-c", commands)
		shell.Dir = dir
		if out, err := shell.CombinedOutput(); (err == nil) != c.good {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

package script

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/podrun/podrun/cmd"
	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/test/ring"
)

var update = flag.Bool("update", false, "write docs/kubectl-users.md")

// userLine is a line of testdata/kubectl-users.txt.
type userLine struct {
	section, line, note string
	mark                byte // +, !, ~ or ?
}

func readUserLines(t *testing.T) []userLine {
	t.Helper()
	data, err := os.ReadFile("testdata/kubectl-users.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out []userLine
	section := ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = title
		} else if line != "" && line[0] != '#' {
			text, note, _ := strings.Cut(line[2:], " = ")
			out = append(out, userLine{section: section, line: text, note: note, mark: line[0]})
		}
	}
	return out
}

// shellWords splits a line as a shell does. It supports quotes only.
func shellWords(line string) []string {
	var words []string
	var word strings.Builder
	var quote rune
	begun := false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case r == ' ' && (begun || word.Len() > 0):
			words = append(words, word.String())
			word.Reset()
			begun = false
		case r != ' ':
			word.WriteRune(r)
		}
	}
	return append(words, word.String())
}

// TestUsersLines covers commands that podrun does not have. podrun must print a one-line
// alternative, and docs/kubectl-users.md must list all of them.
func TestUsersLines(t *testing.T) {
	dir := t.TempDir()
	rt := critest.New()
	stop, err := rt.Serve(filepath.Join(dir, "cri.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	defer stop()
	t.Setenv("CONTAINER_RUNTIME_ENDPOINT", "unix://"+filepath.Join(dir, "cri.sock"))
	t.Setenv("PODRUN_CONTAINER_RUNTIME_ENDPOINT", "unix://"+filepath.Join(dir, "cri.sock"))
	t.Setenv("PODRUN_CONFIG", "")
	t.Setenv("PODRUN_ROOT_DIR", filepath.Join(dir, "root"))
	lines := readUserLines(t)
	if len(lines) < 150 {
		t.Errorf("%d lines, fewer than 150", len(lines))
	}
	var doc bytes.Buffer
	doc.WriteString(usersHead)
	section := ""
	for _, l := range lines {
		if l.section != section {
			section = l.section
			fmt.Fprintf(&doc, "\n## %s\n\n| after `podrun` | outcome |\n|---|---|\n", section)
		}
		outcome := "works"
		if l.note != "" {
			outcome += ": " + l.note
		}
		if l.mark == '?' {
			usual := strings.NewReplacer(filepath.Join(dir, "cri.sock"), "/run/containerd/containerd.sock", filepath.Join(dir, "root"), "/var/lib/podrun")
			outcome = usual.Replace(suggestionFor(t, l.line))
		}
		fmt.Fprintf(&doc, "| `%s` | %s |\n", strings.ReplaceAll(l.line, "|", `\|`), strings.ReplaceAll(outcome, "|", `\|`))
	}
	page := "docs/kubectl-users.md"
	if *update {
		if err := os.WriteFile(page, doc.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(page)
	if err != nil || !bytes.Equal(have, doc.Bytes()) {
		t.Errorf("%s is not current (%v): go test . -run TestUsersLines -update writes it", page, err)
	}
}

const usersHead = `# For users of kubectl, docker and podman

This page shows what podrun does with commands of other tools. A test
(test/script/users_test.go) runs each command and generates this page. Every command
accepts the names NAME, pod/NAME, pod NAME and po NAME for a pod. An unsupported
command fails with exit code 120 and prints what to use instead.
`

// suggestionFor runs a line that podrun refuses, and returns podrun's suggestion.
func suggestionFor(t *testing.T, line string) string {
	t.Helper()
	var out, stderr bytes.Buffer
	code := cmd.Main(t.Context(), shellWords(line), cmd.Streams{In: strings.NewReader(""), Out: &out, Err: &stderr}, "test", time.Now())
	text := strings.TrimSpace(stderr.String())
	said, hint, ok := strings.Cut(text, "\nhint: ")
	if code != exit.Usage || out.Len() > 0 || !ok || strings.Contains(hint, "\n") || strings.Contains(said, "\n") {
		t.Errorf("podrun %s: exit code %d, %q %q; want %d, an error and a hint of one line each", line, code, out.String(), text, exit.Usage)
	}
	// The error itself is the suggestion.
	if strings.HasPrefix(hint, "see '") {
		hint = strings.TrimPrefix(said, "podrun: ")
	}
	return hint
}

// TestUsersLinesThatWork runs the lines that podrun supports, with the fake runtime.
func TestUsersLinesThatWork(t *testing.T) {
	ring.Require(t, 2)
	ring.RequireRoot(t)
	t.Parallel()
	var s strings.Builder
	const setUp = "podrun apply -q web.yaml db.yaml job.yaml\n"
	s.WriteString("env KUBE_EDITOR=true\n" + setUp + "until Completed podrun get job\n")
	for _, l := range readUserLines(t) {
		if l.mark == '?' || l.mark == '~' {
			continue
		}
		s.WriteString("podrun")
		for _, w := range shellWords(l.line) {
			if w == "IMAGE" {
				s.WriteString(" $IMAGE")
				continue
			}
			s.WriteString(" '" + strings.ReplaceAll(w, "'", "''") + "'")
		}
		s.WriteString("\n")
		if l.mark == '!' {
			s.WriteString(setUp)
		}
	}
	s.WriteString("podrun delete --all --now\npodrun delete -n other --all --now\n")
	pod := func(file, name, spec string) {
		fmt.Fprintf(&s, "-- %s --\napiVersion: v1\nkind: Pod\nmetadata: {name: %s, labels: {app: %s}}\nspec: {dnsPolicy: Default, %s}\n", file, name, name, spec)
	}
	stays := `image: "${IMAGE}", command: [sh, -c, 'trap "exit 0" TERM; sleep 600 & wait']`
	web := fmt.Sprintf("containers: [{name: app, %s}, {name: side, %s}]", stays, stays)
	for _, file := range []string{"web.yaml", "manifests/web.yaml"} {
		fmt.Fprintf(&s, "-- %s --\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, annotations: {podrun.dev/replicas: honour}}\nspec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {dnsPolicy: Default, %s}}}\n", file, web)
	}
	s.WriteString("-- overlays/prod/kustomization.yaml --\nresources: [pod.yaml]\nnamePrefix: prod-\n")
	pod("overlays/prod/pod.yaml", "db", fmt.Sprintf("containers: [{name: app, %s}]", stays))
	pod("new.yaml", "new", fmt.Sprintf("containers: [{name: app, %s}]", stays))
	pod("db.yaml", "db", fmt.Sprintf("containers: [{name: app, %s}]", stays))
	pod("job.yaml", "job", `restartPolicy: Never, containers: [{name: app, image: "${IMAGE}", command: ["true"]}]`)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "users.txtar"), []byte(s.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	p := (&harness{profile: critest.Containerd(), cgroupRoot: fmt.Sprintf("/podrunusers%d", os.Getpid())}).params()
	p.Dir = dir
	testscript.Run(t, p)
}

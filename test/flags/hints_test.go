package flags

import (
	"bufio"
	"cmp"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/test/ring"
)

// usersLines returns the command lines of testdata/kubectl-users.txt that podrun refuses with a hint.
func usersLines(t *testing.T) (lines []string) {
	f, err := os.Open("../../testdata/kubectl-users.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	scan := bufio.NewScanner(f)
	for scan.Scan() {
		if line, ok := strings.CutPrefix(scan.Text(), "? "); ok {
			lines = append(lines, line)
		}
	}
	if len(lines) < 100 {
		t.Fatalf("only %d lines (%v)", len(lines), scan.Err())
	}
	return lines
}

// tableLines returns a command line for each row of cmd/grammar/words.txt that refuses a command or a flag. A row for a
// command becomes that command with the name of a pod, and a row for a flag becomes the flag with the usual arguments of
// its command.
func tableLines(t *testing.T) (lines [][]string) {
	for _, key := range grammar.Words() {
		switch command, flag := cutFlag(key); {
		case !grammar.IsRefused(key) || strings.HasSuffix(key, "/"):
		case flag == "":
			line := append(words(key), "web")
			if strings.HasSuffix(key, "exec") {
				line = append(line, "ls")
			}
			lines = append(lines, line)
		default:
			lines = append(lines, flagLine(cmp.Or(command, "get"), flag))
		}
	}
	return lines
}

// cutFlag returns the command and the flag of a key of words.txt.
func cutFlag(key string) (command, flag string) {
	i := strings.Index(" "+key, " -")
	if i < 0 {
		return key, ""
	}
	return strings.TrimSpace(key[:i]), key[i:]
}

// valuesInHints are the values of flags in tableLines whose hints are valid only with a value of some form.
var valuesInHints = map[string]string{
	"time": "5", "t": "5", "lines": "5", "since": "5m", "request-timeout": "5s", "runtime-endpoint": "unix:///cri.sock", "r": "unix:///cri.sock",
	"image-endpoint": "unix:///cri.sock", "output": "json", "o": "json", "env": "A=b", "e": "A=b", "field-selector": "status.phase=Failed", "f": "web.yaml",
	"filename": "web.yaml", "signal": "TERM", "s": "TERM", "build": "",
}

// flagLine returns a command line with a flag of another tool.
func flagLine(command, flag string) []string {
	name, value, takesValue := strings.Cut(flag, " ")
	line := append(words(command), name)
	if takesValue {
		line = append(line, strings.ReplaceAll(value, "VALUE", cmp.Or(valuesInHints[strings.TrimLeft(name, "-")], "x")))
	}
	for _, word := range forms["podrun "+command][0].args {
		line = append(line, strings.TrimPrefix(word, "@/")) // the test runs in the directory of the files
	}
	return line
}

// typedLines returns the command lines of a study of typed commands that podrun refused, or nil if the study is absent.
func typedLines(t *testing.T) (lines [][]string) {
	data, err := os.ReadFile(filepath.Join(cmp.Or(os.Getenv("PODRUN_SHARED"), "../../../shared"), "research", "commands.tsv"))
	if err != nil {
		t.Logf("without the typed commands: %v", err)
	}
	for line := range strings.Lines(string(data)) {
		cells := strings.Split(line, "\t")
		text, ok := strings.CutPrefix(cells[min(2, len(cells)-1)], "podrun ")
		if !ok || cells[3] != "120" || strings.ContainsAny(text, "|&;<>$@") || endless.MatchString(text) {
			continue
		}
		lines = append(lines, quoted(text))
	}
	return lines
}

// endless matches typed commands that may not end.
var endless = regexp.MustCompile(`\b(serve|attach|port-forward|run|wait)\b|-w\b|--watch|-f\b|--follow|^events|__complete`)

// inQuotes matches a command line in a hint. Words of the command line can be in quotation marks, too.
var inQuotes = regexp.MustCompile(`'((?:[^']|'[^' ]*')+?)'(?:[ ,.;:)]|$)`)

// placeholders are words in hints for which the user substitutes a value, with the values of the test.
var placeholders = strings.NewReplacer("[:TAG]", "", "REPOSITORY", "registry.example/app", "IMAGE:TAG", "registry.example/app:1", "IMAGE", "registry.example/app:1",
	"NAME", "web", "POD", "web", "FILE", "web.yaml", "COMMAND", "ls", "DIR", "manifests", "PATH", "/etc", "PORT", "80", "VALUE", "5", "USER", "root", "TYPE", "app",
	"SELECTOR", "app=web", "ARGS", "web", "KUSTOMIZATION", "overlays/prod", "ARCHIVE", "web.yaml", "…", "web", "CONTAINER", "web", "KEY", "a", "TARGET", "web.yaml")

// untried are the commands in hints that change this host.
var untried = regexp.MustCompile(`^(service (install|uninstall)|runtime (up|upgrade))`)

// suggestions returns the commands of podrun in a hint, each as its arguments.
func suggestions(hint string) (out [][]string) {
	for _, match := range inQuotes.FindAllStringSubmatch(hint, -1) {
		for _, command := range regexp.MustCompile(`\|+|&&|;`).Split(match[1], -1) {
			command, _, _ = strings.Cut(strings.TrimSpace(command), " > ")
			text, isPodrun := strings.CutPrefix(command, "podrun ")
			if rest, ok := strings.CutPrefix(command, "xargs -r podrun "); ok {
				text, isPodrun = rest+" web", true
			}
			if isPodrun && !untried.MatchString(text) {
				out = append(out, quoted(placeholders.Replace(text)))
			}
		}
	}
	return out
}

// TestHints runs each command that a hint suggests for a command or a flag of another tool: those of
// cmd/grammar/words.txt, and those of testdata/kubectl-users.txt. The command must not lead to another refusal of the command line.
func TestHints(t *testing.T) {
	ring.Require(t, 2)
	ring.RequireRoot(t)
	web := pod("web", "web", staysSpec)
	more := map[string]string{"web": "", "web.yaml": web, "pod.yaml": web, "pods.yaml": web, "secret.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: web}\n",
		"overlays/prod/kustomization.yaml": "resources: [pod.yaml]\n", "overlays/prod/pod.yaml": web}
	lines := tableLines(t)
	for _, line := range usersLines(t) {
		lines = append(lines, quoted(line))
	}
	var h *host
	fresh := func() {
		if h != nil {
			if err := h.close(); err != nil {
				t.Error(err)
			}
		}
		h = startHints(t, more)
	}
	fresh()
	defer func() { _ = h.close() }()
	before, err := h.state(t.Context())
	tried := map[string]bool{}
	known := len(lines)
	for i, line := range append(lines, typedLines(t)...) {
		got := h.call(t.Context(), false, line)
		_, hint, _ := strings.Cut(got.stderr, "\nhint: ")
		if i < known && (got.code != exit.Usage || hint == "") {
			t.Errorf("podrun %s: no hint: %s", strings.Join(line, " "), got)
		}
		for _, args := range suggestions(strings.TrimSpace(hint)) {
			suggestion := strings.Join(args, " ")
			if tried[suggestion] {
				continue
			}
			tried[suggestion] = true
			blocks := slices.ContainsFunc(args, func(word string) bool {
				return slices.Contains([]string{"serve", "port-forward", "attach", "-w", "--watch", "-f"}, word)
			})
			got := h.call(t.Context(), blocks, args)
			if got.code == exit.Usage && !strings.Contains(got.stderr, "kubectl is installed") || got.problem != "" {
				t.Errorf("podrun %s: the hint suggests 'podrun %s':\n%s", strings.Join(line, " "), suggestion, got)
			}
			after, aerr := h.state(t.Context())
			if err = errors.Join(err, aerr); err != nil {
				t.Fatal(err)
			}
			if len(before.changed(after)) > 0 {
				fresh()
				before, err = h.state(t.Context())
			}
		}
	}
	if len(tried) < 100 {
		t.Errorf("only %d suggestions were tried", len(tried))
	}
}

// startHints returns a host with the objects of before.yaml and the names of the users' lines: the pods web, db and job,
// and the Deployment web. The environment contains its settings, because a hint repeats the flags of the command line.
func startHints(t *testing.T, more map[string]string) *host {
	all := maps.Clone(files)
	maps.Copy(all, more)
	h, err := newHost(all)
	if err != nil {
		t.Fatal(err)
	}
	for _, setting := range h.settings() {
		flag, value, _ := strings.Cut(strings.TrimPrefix(setting, "--"), "=")
		t.Setenv("PODRUN_"+strings.ToUpper(strings.ReplaceAll(flag, "-", "_")), value)
	}
	t.Chdir(h.dir)
	h.bare = true
	for _, line := range []string{"apply -q before.yaml", "wait -q --for=completed job"} {
		if got := h.call(t.Context(), false, words(line)); got.code != 0 {
			t.Fatalf("podrun %s: %s", line, got)
		}
	}
	return h
}

// quoted splits a line as a shell does. It supports quotes only.
func quoted(line string) []string {
	var out []string
	for _, match := range regexp.MustCompile(`(?:[^\s'"]|'[^']*'|"[^"]*")+`).FindAllString(line, -1) {
		out = append(out, strings.NewReplacer(`'`, "", `"`, "").Replace(match))
	}
	return out
}

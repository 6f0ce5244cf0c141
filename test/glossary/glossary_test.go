// Package glossary checks that the texts for users and maintainers use the terms of the field.
// It checks the documents, the comments, and the string literals of the program: help, errors,
// hints and events consist of these.
package glossary

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/podrun/podrun/test/ring"
)

// term is a phrase that must not be used, and the phrase that replaces it.
type term struct {
	not   *regexp.Regexp
	write string
}

// terms are those of the glossary, and words that name no actor.
var terms = []term{
	{phrase(`somebody|nobody|no one who`), "a process, a user, a supervisor; no process"},
	{phrase(`who (watches|stays|waits)`), "supervisor, podrun serve, the command that"},
	{phrase(`(is|are|was|were) (not |no longer |already )?here|here already|what is here|(is|are) not there`), "on this host; present; not found"},
	{phrase(`mends?|mended|mending`), "fix, remediation"},
	{phrase(`amiss`), "problem, wrong"},
	{phrase(`tells?|told`), "report, print, show"},
	{phrase(`says? of|said of|it is said`), "report, print, show"},
	{phrase(`can't get better|what is tried again`), "permanent error, transient error"},
	{phrase(`left alone|leaves? (it|them) alone`), "ignored; not changed"},
	{phrase(`longer by|give it longer`), "increase --timeout"},
	{phrase(`how far (it|they|pulls)`), "progress"},
	{phrase(`leaves? what (it|they)`), "keep"},
	{phrase(`go(es)? on with`), "resume, continue"},
	{phrase(`it takes (containerd|linux|root|a kernel)`), "requires"},
	{phrase(`has been run where|has been run what`), "tested configurations"},
	{phrase(`what is left of`), "leftover"},
	{phrase(`no room|the room|room for|same room`), "reservation, resources"},
	{phrase(`whose it is`), "owner"},
	{phrase(`anew`), "recreate, replace, again"},
	{phrase(`side by side`), "concurrently, in parallel"},
	{phrase(`in the meantime|meanwhile`), "while …"},
	{phrase(`taken away|takes away|taken back`), "removed, undone"},
	{phrase(`half gone|half made`), "interrupted, incomplete"},
	{phrase(`can't be had|to be had|could not be had`), "not available"},
	{phrase(`can't`), "cannot"},
	{phrase(`for want of|wants? to be|is said|that there (is|are)`), "plain words"},
	{phrase(`what helps|what to do about it`), "fix"},
}

func phrase(words string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b(` + words + `)\b`) }

// allowed lists places where a phrase is correct: "file: text around it". It has at most 20
// entries.
var allowed = []string{
	"run/start/sandbox.go: can't get final child",             // a message of runc
	"cri/environment_error.go: can't contain null",            // a message of runc
	"volume/emptydir.go: can't be used if container requests", // a message of the kubelet
}

const root = "../.."

func TestGlossary(t *testing.T) {
	ring.Require(t, 2)
	if len(allowed) > 20 {
		t.Errorf("%d exceptions, more than 20", len(allowed))
	}
	used := make([]bool, len(allowed))
	n := 0
	check := func(place, file, text string) {
		n++
		for _, term := range terms {
			for _, at := range term.not.FindAllStringIndex(text, -1) {
				around := text[max(0, at[0]-30):min(len(text), at[1]+30)]
				if !isAllowed(file, around, used) {
					t.Errorf("%s: %q is not plain: write %s: …%s…", place, text[at[0]:at[1]], term.write, strings.ReplaceAll(around, "\n", " "))
				}
			}
		}
	}
	documents(t, check)
	literals(t, check)
	comments(t, check)
	if n < 12000 {
		t.Errorf("only %d texts were read", n)
	}
	for i, was := range used {
		if !was {
			t.Errorf("the exception %q is not needed", allowed[i])
		}
	}
}

func isAllowed(file, around string, used []bool) bool {
	for i, line := range allowed {
		where, text, _ := strings.Cut(line, ": ")
		if where == file && strings.Contains(around, text) {
			used[i] = true
			return true
		}
	}
	return false
}

// documents passes on each line of the documents, except code. It omits texts of Kubernetes and
// tables of other tools' commands, because podrun does not choose their words.
func documents(t *testing.T, check func(place, file, text string)) {
	t.Helper()
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/commands/*.md", "test/guest/README.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	code := regexp.MustCompile("`[^`]*`")
	for _, page := range pages {
		file, err := filepath.Rel(root, page)
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(data), "\n") {
			check(file+":"+strconv.Itoa(i+1), file, code.ReplaceAllString(line, "``"))
		}
	}
}

// notProgram are the directories whose Go files are not part of the program.
var notProgram = []string{"test", "hack", "cri/critest", "bundle", "faultpoint"}

// literals passes on each string literal of the program's source.
func literals(t *testing.T, check func(place, file, text string)) {
	t.Helper()
	goFiles(t, notProgram, func(file string, line func(token.Pos) string, syntax *ast.File) {
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		ast.Inspect(syntax, func(n ast.Node) bool {
			if _, isImport := n.(*ast.ImportSpec); isImport {
				return false
			}
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			if text, err := strconv.Unquote(lit.Value); err == nil {
				check(line(lit.Pos()), file, text)
			}
			return true
		})
	})
}

// comments passes on each line of the comments of all Go files, including tests, except code in
// quotes.
func comments(t *testing.T, check func(place, file, text string)) {
	t.Helper()
	quoted := regexp.MustCompile("`[^`]*`|\"[^\"]*\"|'[^' ]+ [^']*'")
	goFiles(t, []string{"test/glossary"}, func(file string, line func(token.Pos) string, syntax *ast.File) {
		for _, group := range syntax.Comments {
			for _, c := range group.List {
				check(line(c.Pos()), file, quoted.ReplaceAllString(c.Text, "``"))
			}
		}
	})
}

// goFiles parses each Go file, except those in the skipped directories. The function line
// returns the file and line of a position.
func goFiles(t *testing.T, skipped []string, visit func(file string, line func(token.Pos) string, syntax *ast.File)) {
	t.Helper()
	files := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		file, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() && (file == ".git" || file == "bin" || slices.Contains(skipped, file)) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(file, ".go") {
			return nil
		}
		syntax, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		visit(file, func(at token.Pos) string { return file + ":" + strconv.Itoa(files.Position(at).Line) }, syntax)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestTerms checks that each term matches the wrong phrases from which it is derived, and does
// not match correct texts.
func TestTerms(t *testing.T) {
	ring.Require(t, 2)
	matches := func(text string) bool {
		for _, term := range terms {
			if term.not.MatchString(text) {
				return true
			}
		}
		return false
	}
	for _, wrong := range []string{
		"after apply has returned nobody restarts containers", "what keeps pods from running, and what mends it", "podrun tells where it is missing",
		"give it longer by --timeout", "shows how far it came", "the image is not here", "is here already", "started side by side", "takes the same room", "makes the pod anew",
		"goes on with them", "In the meantime", "What can't get better fails", "no podrun knows whose it is", "what is left of a pod",
	} {
		if !matches(wrong) {
			t.Errorf("%q passes", wrong)
		}
	}
	for _, right := range []string{
		"increase --timeout; 'podrun get' shows the progress", "not found on this host", "the sandbox is removed", "pods run concurrently", "adhere to it", "recommended", "telling", "mushroom",
	} {
		if matches(right) {
			t.Errorf("%q does not pass", right)
		}
	}
}

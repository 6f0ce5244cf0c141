package workflow_test

import (
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/podrun/podrun/internal/workflow"
	"github.com/podrun/podrun/internal/workflow/workflowtest"
)

func TestContainersCannotIssueCommands(t *testing.T) {
	var out strings.Builder
	w := workflow.NewWriter(&out)
	const hostile = "::error::a\n  ::set-output name=x::y\nb ##[error]c\r::add-mask::d\n::stop-commands::e\n::::\n"
	w.Group("Container a%\n::error::b")
	io.WriteString(w.Foreign(), hostile)
	io.WriteString(w.Foreign(), "incomplete")
	w.Annotate(workflow.Error, workflow.Annotation{File: "a,b:c%.yaml", Line: 3, Title: "T\r", Message: "100%\nof it, all: ::warning::x"})
	io.WriteString(w.Text(), "Warning  Unhealthy  app: probe failed: ##[error]f\n        ::error::g\n\u200b::error::h\n")
	io.WriteString(w.Foreign(), "::error::i\n")
	w.EndGroup()
	commands, shown := workflowtest.Run(out.String())
	want := []string{
		"::group::Container a%25%0A::error::b",
		"::error file=a%2Cb%3Ac%25.yaml,line=3,title=T%0D::100%25%0Aof it, all: ::warning::x",
		"::endgroup::",
	}
	if strings.Join(commands, "\n") != strings.Join(want, "\n") {
		t.Errorf("commands:\n%q\nwant\n%q\noutput:\n%s", commands, want, out.String())
	}
	text := strings.Join(shown, "\n") + "\n"
	for _, want := range []string{"::error::a\n", "b ##[error]c\n", "incomplete\n", `##\[error]f`, `        \::error::g`, "::error::i\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %q:\n%s", want, text)
		}
	}
}

func TestEachTokenIsUsedOnce(t *testing.T) {
	var out strings.Builder
	w := workflow.NewWriter(&out)
	seen := map[string]bool{}
	for range 3 {
		io.WriteString(w.Foreign(), "x\n")
		w.EndGroup()
	}
	for _, m := range regexp.MustCompile(`(?m)^::stop-commands::(.*)$`).FindAllStringSubmatch(out.String(), -1) {
		if len(m[1]) < 26 || seen[m[1]] {
			t.Errorf("token %q is short or was used before", m[1])
		}
		seen[m[1]] = true
	}
	if len(seen) != 3 {
		t.Errorf("%d tokens, want 3", len(seen))
	}
}

func TestAnnotate(t *testing.T) {
	for name, c := range map[string]struct {
		level workflow.Level
		workflow.Annotation
		want string
	}{
		"message":  {workflow.Error, workflow.Annotation{Message: "m"}, "::error::m\n"},
		"line":     {workflow.Error, workflow.Annotation{Line: 3, Message: "m"}, "::error::m\n"},
		"file":     {workflow.Warning, workflow.Annotation{File: "f", Message: "m"}, "::warning file=f::m\n"},
		"title":    {workflow.Error, workflow.Annotation{File: "f", Line: 1, Title: "t: u", Message: "m"}, "::error file=f,line=1,title=t%3A u::m\n"},
		"long":     {workflow.Error, workflow.Annotation{Title: strings.Repeat("ü", 300), Message: "m"}, "::error title=" + strings.Repeat("ü", 255) + "::m\n"},
		"no lines": {workflow.Error, workflow.Annotation{Message: ""}, "::error::\n"},
	} {
		var out strings.Builder
		workflow.NewWriter(&out).Annotate(c.level, c.Annotation)
		if out.String() != c.want {
			t.Errorf("%s: %q, want %q", name, out.String(), c.want)
		}
	}
}

func TestTextIsUnchanged(t *testing.T) {
	const text = "pod listens on [::]:80\nNormal  Pulled  a::b\n\nport ::1\n"
	var out strings.Builder
	io.WriteString(workflow.NewWriter(&out).Text(), text)
	if out.String() != text {
		t.Errorf("%q, want %q", out.String(), text)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestWriteErrors(t *testing.T) {
	w := workflow.NewWriter(full{})
	w.Group("g")
	if _, err := io.WriteString(w.Foreign(), "x\n"); err == nil {
		t.Error("the output was lost without an error")
	}
	if _, err := io.WriteString(w.Text(), "x\n"); err == nil {
		t.Error("the text was lost without an error")
	}
}

package cli

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/workflow"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lifecycle"
)

// Annotate writes a problem as an annotation, at its position in a file if it has one.
func Annotate(a *App, level workflow.Level, title string, p problem.Problem) {
	if at := position(a, p.Object); p.File == "" && repositoryFile(at.File) != "" {
		p.File, p.Line = at.File, at.Line
	}
	annotation := workflow.Annotation{Title: title, Message: view.ShownText(p.String()), File: repositoryFile(p.File)}
	if annotation.File != "" {
		annotation.Line = p.Line
	}
	a.Workflow.Annotate(level, annotation)
}

// annotateError writes an error as annotations: one for each of its problems.
func annotateError(a *App, err error) {
	title := exitTitle(exit.Code(err))
	problems := problem.Of(err)
	if len(problems) == 1 {
		problems[0].Hint = cmp.Or(problems[0].Hint, exit.HintFor(err))
	}
	for _, p := range problems {
		Annotate(a, workflow.Error, title, p)
	}
}

// annotateWarnings writes warnings as annotations.
func (a *App) annotateWarnings(l problem.List) {
	for _, p := range l {
		Annotate(a, workflow.Warning, "", p)
	}
}

// exitTitle returns the title of the annotation of an error, by its exit code.
func exitTitle(code int) string {
	switch code {
	case exit.Usage:
		return "Invalid command line"
	case exit.Manifest:
		return "Invalid manifest"
	case exit.Refused:
		return "Pod refused"
	case exit.Image:
		return "Image not available"
	case exit.Deadline:
		return "Timeout"
	case exit.NotExecutable:
		return "Command not executable"
	case exit.NotFound:
		return "Command not found"
	case exit.Failed:
		return "Pod failed"
	case exit.HUP, exit.INT, exit.QUIT, exit.PIPE, exit.TERM:
		return "Interrupted"
	}
	return "podrun failed"
}

// position returns the position in the input of the object that an error names: "pod default/web"
// or "pod default/web: container app". It returns the zero value if it is unknown.
func position(a *App, object string) manifest.Position {
	if a.Input == nil {
		return manifest.Position{}
	}
	for _, p := range a.Input.Pods {
		rest, ok := strings.CutPrefix(object, "pod "+p.Object.Namespace+"/"+p.Object.Name)
		if !ok || rest != "" && !strings.HasPrefix(rest, ":") {
			continue
		}
		field := ""
		if _, name, ok := strings.Cut(rest, ": container "); ok {
			field = lifecycle.FindContainer(p.Object, name).Field
		}
		at := p.Locate(problem.Problem{Field: field})
		return manifest.Position{File: at.File, Line: at.Line}
	}
	return manifest.Position{}
}

// repositoryFile returns the name of a file for an annotation: relative to the repository, as GitHub
// shows it. GITHUB_WORKSPACE contains the directory of the repository, but sudo removes the
// variable. If it is unset, the name is absolute, and the runner makes it relative. It returns ""
// for an input that is not a file: standard input, URLs and generated manifests.
func repositoryFile(name string) string {
	if info, err := os.Stat(name); name == "" || name == "-" || err != nil || !info.Mode().IsRegular() {
		return ""
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return name
	}
	if workspace := os.Getenv("GITHUB_WORKSPACE"); workspace != "" {
		if rel, err := filepath.Rel(workspace, path); err == nil && filepath.IsLocal(rel) {
			return rel
		}
	}
	return path
}

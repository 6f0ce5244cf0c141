package cmd

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/junit"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/workflow"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
)

// startWorkflow makes the command write everything to stdout, including workflow commands.
// GitHub's runner reads stdout and stderr concurrently, so the order of lines on both would be
// lost.
func (a *app) startWorkflow() {
	a.surviveBrokenPipes()
	a.workflow, a.output = workflow.NewWriter(a.raw.Out), ""
	a.raw.Out, a.raw.Err = a.workflow.Text(), a.workflow.Text()
	a.outTerminal, a.errTerminal = nil, nil // lines are not wrapped
}

// annotate writes a problem as an annotation, at its position in a file if it has one.
func (a *app) annotate(level workflow.Level, title string, p problem.Problem) {
	if at := a.position(p.Object); p.File == "" && repositoryFile(at.File) != "" {
		p.File, p.Line = at.File, at.Line
	}
	annotation := workflow.Annotation{Title: title, Message: view.ShownText(p.String()), File: repositoryFile(p.File)}
	if annotation.File != "" {
		annotation.Line = p.Line
	}
	a.workflow.Annotate(level, annotation)
}

// annotateError writes an error as annotations: one for each of its problems.
func (a *app) annotateError(err error) {
	title := exitTitle(exit.Code(err))
	problems := problem.Of(err)
	if len(problems) == 1 {
		problems[0].Hint = cmp.Or(problems[0].Hint, exit.HintFor(err))
	}
	for _, p := range problems {
		a.annotate(workflow.Error, title, p)
	}
}

// annotateWarnings writes warnings as annotations.
func (a *app) annotateWarnings(l problem.List) {
	for _, p := range l {
		a.annotate(workflow.Warning, "", p)
	}
}

// annotateContainers writes an annotation for each container that failed: as an error if the pod
// counts as failed, else as a warning.
func (a *app) annotateContainers(p endedPod) {
	level := workflow.Error
	if p.code == exit.OK {
		level = workflow.Warning
	}
	outcomes, _ := p.containers()
	for _, o := range outcomes {
		if o.outcome == junit.Failed {
			a.annotate(level, "Container "+o.name+" failed", problem.Problem{Object: "pod " + p.id.String() + ": container " + o.name,
				Message: strings.TrimSpace(o.message + "\n" + o.details)})
		}
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
func (a *app) position(object string) manifest.Position {
	if a.input == nil {
		return manifest.Position{}
	}
	for _, p := range a.input.Pods {
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

// logGroups puts the logs of containers into groups. Each init container that runs alone has its
// own group. All containers that may run at the same time share one.
type logGroups struct {
	*workflow.Writer
	groups map[containerKey]*logGroup
	open   *logGroup
}

// logGroup is a group of containers whose logs are written together.
type logGroup struct {
	title   string
	waiting map[containerKey]bool // containers that have not been started
	reading int
}

// newLogGroups returns the log groups of a command's pods and containers.
func newLogGroups(w *workflow.Writer, objects *manifest.Objects) *logGroups {
	l := &logGroups{Writer: w, groups: map[containerKey]*logGroup{}}
	if len(objects.Pods) > 1 {
		all := &logGroup{title: fmt.Sprintf("%d pods", len(objects.Pods)), waiting: map[containerKey]bool{}}
		for _, p := range objects.Pods {
			for _, c := range lifecycle.SpecContainers(p.Object) {
				l.add(all, p.Object, c.Container.Name)
			}
		}
		return l
	}
	for _, p := range objects.Pods {
		l.addPod(p.Object)
	}
	return l
}

// addPod adds the groups of the command's pod.
func (l *logGroups) addPod(pod *corev1.Pod) {
	rest := &logGroup{waiting: map[containerKey]bool{}}
	var names []string
	for _, c := range lifecycle.SpecContainers(pod) {
		name := c.Container.Name
		if c.Init && c.Container.RestartPolicy == nil && len(names) == 0 {
			l.add(&logGroup{title: "Init container " + name, waiting: map[containerKey]bool{}}, pod, name)
			continue
		}
		names = append(names, name)
		l.add(rest, pod, name)
	}
	rest.title = "Containers " + strings.Join(names, ", ")
	if len(names) == 1 {
		rest.title = "Container " + names[0]
	}
}

func (l *logGroups) add(g *logGroup, pod *corev1.Pod, name string) {
	key := containerKey{pod.Namespace, pod.Name, name}
	l.groups[key], g.waiting[key] = g, true
}

// begin begins the group of a container that has started. The caller must call end when it has
// read the container's log to its end. It must hold the mutex of the logReader during both
// calls.
func (l *logGroups) begin(log run.Log) *logGroup {
	key := containerKey{log.Pod.Namespace, log.Pod.Name, log.Container}
	g := l.groups[key]
	if g == nil { // an ephemeral container
		g = &logGroup{title: "Container " + log.Container}
	}
	delete(g.waiting, key)
	g.reading++
	if l.open != g {
		l.Group(g.title)
		l.open = g
	}
	return g
}

// end ends the group when none of its containers can write further output.
func (l *logGroups) end(g *logGroup) {
	if g.reading--; g.reading == 0 && len(g.waiting) == 0 && l.open == g {
		l.EndGroup()
		l.open = nil
	}
}

package pods

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/workflow"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
)

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

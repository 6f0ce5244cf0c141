package access

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/run/lifecycle"
)

// annotationDefaultContainer names the container that kubectl uses if none is specified
// (KEP-2227).
const annotationDefaultContainer = "kubectl.kubernetes.io/default-container"

// UnknownContainer is the error for a container that a pod does not have.
type UnknownContainer struct {
	Asked string   // the kind of object that Name names, for the message
	Name  string   // the name in the request
	Has   []string // the pod's containers, with their kinds in parentheses; init containers last
}

func (e *UnknownContainer) Error() string {
	return fmt.Sprintf("it has no %s %q; it has %s", e.Asked, e.Name, strings.Join(e.Has, ", "))
}

// ChooseContainer returns the container with this name, or the default container if the name is
// empty. If the pod does not name a default container either, among lists the pod's containers.
func ChooseContainer(pod *corev1.Pod, name string) (chosen string, among []string, err error) {
	asked := "container"
	if name == "" {
		name, asked = pod.Annotations[annotationDefaultContainer], "container (from its default-container annotation)"
	}
	among = listContainers(pod)
	switch {
	case name != "" && lifecycle.FindContainer(pod, name).Container != nil:
		return name, nil, nil
	case name != "":
		return "", nil, &UnknownContainer{Asked: asked, Name: name, Has: among}
	case len(pod.Spec.Containers) == 0:
		return "", nil, errors.New("it has no containers")
	case len(among) == 1:
		among = nil
	}
	return pod.Spec.Containers[0].Name, among, nil
}

// listContainers returns the names of a pod's containers for messages, init containers last.
func listContainers(pod *corev1.Pod) (names []string) {
	var inits []string
	for _, c := range lifecycle.SpecContainers(pod) {
		switch name := c.Container.Name; {
		case c.Init:
			inits = append(inits, name+" (init)")
		case c.Ephemeral:
			names = append(names, name+" (ephem)")
		default:
			names = append(names, name)
		}
	}
	return append(names, inits...)
}

// DefaultContainer returns the container of a pod that kubectl uses if none is specified.
// It returns an error if the pod has no container, or its default-container
// annotation is invalid.
func DefaultContainer(pod *corev1.Pod) (string, error) {
	name, _, err := ChooseContainer(pod, "")
	return name, err
}

// Package hook runs the lifecycle hooks postStart and preStop. The behavior of hooks and the
// messages about their failures are the kubelet's (pkg/kubelet/lifecycle/handlers.go). podrun runs exec hooks in the
// container, and httpGet and sleep hooks itself. The API also accepts tcpSocket, which always fails. Hooks have no
// timeout.
package hook

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podrun/podrun/internal/identity"
)

// The two hooks.
const (
	PostStart = "postStart"
	PreStop   = "preStop"
)

// Kind is the kind of a hook's handler.
type Kind string

// The kinds of the API's LifecycleHandler.
const (
	Exec    Kind = "exec"
	HTTPGet Kind = "httpGet"
	Sleep   Kind = "sleep"
	Invalid Kind = "invalid" // tcpSocket, or no handler
)

// Plan is the plan of one hook of one container. It marshals to stable JSON.
type Plan struct {
	ID        identity.Pod `json:"id"`
	Container string       `json:"container"`
	Hook      string       `json:"hook"` // postStart or preStop
	Kind      Kind         `json:"kind"`
	Command   []string     `json:"command,omitempty"` // if Kind is Exec
	HTTP      *HTTP        `json:"http,omitempty"`
	Seconds   int64        `json:"seconds,omitempty"` // if Kind is Sleep
	// Problem is the reason why the hook will always fail, such as an unknown port name or a
	// tcpSocket. As in the kubelet, the hook fails only when it runs.
	Problem string `json:"problem,omitempty"`
}

// HTTP is the request of an httpGet hook.
type HTTP struct {
	Scheme string `json:"scheme"`         // http or https
	Host   string `json:"host,omitempty"` // "" means the pod's IP, which is not known yet
	Port   int    `json:"port"`
	Path   string `json:"path"`
	// Headers are in the order of the spec. If a header is repeated, podrun sends each occurrence.
	Headers []corev1.HTTPHeader `json:"headers,omitempty"`
}

// New returns the plan of a container's postStart or preStop hook. The result ok is false if the
// container does not have the hook.
func New(id identity.Pod, c *corev1.Container, which string) (plan Plan, ok bool) {
	handler := handlerOf(c, which)
	if handler == nil {
		return Plan{}, false
	}
	plan = Plan{ID: id, Container: c.Name, Hook: which}
	switch {
	case handler.Exec != nil:
		plan.Kind, plan.Command = Exec, handler.Exec.Command
	case handler.HTTPGet != nil:
		plan.Kind = HTTPGet
		plan.HTTP, plan.Problem = planHTTP(handler.HTTPGet, c)
	case handler.Sleep != nil:
		plan.Kind, plan.Seconds = Sleep, handler.Sleep.Seconds
	default:
		plan.Kind = Invalid
		plan.Problem = fmt.Sprintf("invalid handler: %v", handler)
	}
	return plan, true
}

func handlerOf(c *corev1.Container, which string) *corev1.LifecycleHandler {
	switch {
	case c.Lifecycle == nil:
		return nil
	case which == PostStart:
		return c.Lifecycle.PostStart
	case which == PreStop:
		return c.Lifecycle.PreStop
	}
	return nil
}

func planHTTP(get *corev1.HTTPGetAction, c *corev1.Container) (*HTTP, string) {
	request := &HTTP{Scheme: strings.ToLower(string(get.Scheme)), Host: get.Host, Path: get.Path, Headers: get.HTTPHeaders}
	if request.Scheme == "" {
		request.Scheme = "http"
	}
	port, err := resolvePort(get.Port, c)
	if err != nil {
		return request, err.Error()
	}
	request.Port = port
	return request, ""
}

// resolvePort returns the number of a port. The port is a number, the name of a container port,
// or a number in quotes.
func resolvePort(port intstr.IntOrString, c *corev1.Container) (int, error) {
	number := port.IntValue()
	if port.Type == intstr.String {
		number = 0
		for _, p := range c.Ports {
			if p.Name == port.StrVal {
				number = int(p.ContainerPort)
				break
			}
		}
		if number == 0 {
			n, err := strconv.Atoi(port.StrVal)
			if err != nil {
				return 0, fmt.Errorf("couldn't find port: %s in container %s", port.StrVal, c.Name)
			}
			number = n
		}
	}
	if number <= 0 || number > 65535 {
		return 0, fmt.Errorf("invalid port number: %v", number)
	}
	return number, nil
}

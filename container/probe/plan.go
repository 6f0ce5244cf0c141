// Package probe runs startup, readiness and liveness probes as the kubelet does (v1.36,
// pkg/kubelet/prober). It follows the kubelet in what a probe sends, what counts as a failure, when
// a container is ready, and when it must be killed.
//
// New returns the plan of a probe, State evaluates results, and Due computes when the next probe
// begins. All three are pure. Run runs one probe. A Prober repeatedly runs the probes of all
// containers of a pod.
package probe

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	kubeprobe "k8s.io/kubernetes/pkg/probe"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"

	"github.com/podrun/podrun/internal/identity"
)

// Kind is the kind of a probe.
type Kind string

// The three kinds, as in the kubelet's events. Readiness and liveness probes do not begin before
// the startup probe has succeeded. If a startup or liveness probe fails, the container must be
// killed.
const (
	Startup   Kind = "Startup"
	Readiness Kind = "Readiness"
	Liveness  Kind = "Liveness"
)

// userAgent is the user agent that the v1.36 kubelet sends for probes. A server may distinguish its
// clients by their user agents.
const userAgent = "kube-probe/1.36"

// Plan is one probe of one container. It marshals to stable JSON. Exactly one of Exec, HTTP, TCP
// and GRPC is set, or none if the probe has no handler.
type Plan struct {
	ID        identity.Pod `json:"id"`
	Container string       `json:"container"`
	Kind      Kind         `json:"kind"`
	// Exec is the command that the probe runs in the container. As in the kubelet, podrun replaces
	// $(NAME) only with values that the container's spec contains, and never by values from a
	// ConfigMap, Secret or field.
	Exec []string `json:"exec,omitempty"`
	HTTP *HTTP    `json:"http,omitempty"`
	TCP  *TCP     `json:"tcp,omitempty"`
	GRPC *GRPC    `json:"grpc,omitempty"`

	InitialDelaySeconds int32 `json:"initialDelaySeconds,omitempty"`
	TimeoutSeconds      int32 `json:"timeoutSeconds"`
	PeriodSeconds       int32 `json:"periodSeconds"`
	SuccessThreshold    int32 `json:"successThreshold"`
	FailureThreshold    int32 `json:"failureThreshold"`
	// GraceSeconds is the probe's own terminationGracePeriodSeconds. It replaces the pod's grace
	// period if podrun kills the container because of this probe. nil keeps the pod's grace period.
	GraceSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`
	// Problem is the reason why the probe can never run, for example an unknown port name.
	// Such a probe neither succeeds nor fails.
	Problem string `json:"problem,omitempty"`
}

// HTTP is the request of an httpGet probe.
type HTTP struct {
	Scheme string `json:"scheme"`         // http or https
	Host   string `json:"host,omitempty"` // "" means the pod's IP, which is not known yet
	Port   int    `json:"port"`
	Path   string `json:"path"`
	// Headers are in the order of the spec. The defaults of User-Agent and Accept follow if the
	// spec does not set these headers. An Accept header without a value is not sent.
	Headers []corev1.HTTPHeader `json:"headers"`
}

// TCP is the address of a tcpSocket probe.
type TCP struct {
	Host string `json:"host,omitempty"` // "" means the pod's IP
	Port int    `json:"port"`
}

// GRPC is the health service, on the pod's IP, that a grpc probe queries.
type GRPC struct {
	Port    int    `json:"port"`
	Service string `json:"service,omitempty"`
}

// New returns the plan of a container's probe of one kind. The result ok is false if the container
// has no such probe.
func New(id identity.Pod, c *corev1.Container, which Kind) (plan Plan, ok bool) {
	spec := specOf(c, which)
	if spec == nil {
		return Plan{}, false
	}
	plan = Plan{ID: id, Container: c.Name, Kind: which,
		InitialDelaySeconds: spec.InitialDelaySeconds,
		TimeoutSeconds:      cmp.Or(spec.TimeoutSeconds, 1),
		PeriodSeconds:       cmp.Or(spec.PeriodSeconds, 10),
		SuccessThreshold:    cmp.Or(spec.SuccessThreshold, 1),
		FailureThreshold:    cmp.Or(spec.FailureThreshold, 3),
	}
	if which != Readiness {
		plan.GraceSeconds = spec.TerminationGracePeriodSeconds
	}
	plan.setHandler(spec.ProbeHandler, c)
	return plan, true
}

// All returns the plans of all probes of a container, in the order startup, readiness, liveness.
func All(id identity.Pod, c *corev1.Container) []Plan {
	var plans []Plan
	for _, kind := range []Kind{Startup, Readiness, Liveness} {
		if p, ok := New(id, c, kind); ok {
			plans = append(plans, p)
		}
	}
	return plans
}

func specOf(c *corev1.Container, which Kind) *corev1.Probe {
	switch which {
	case Startup:
		return c.StartupProbe
	case Readiness:
		return c.ReadinessProbe
	case Liveness:
		return c.LivenessProbe
	}
	return nil
}

func (p *Plan) setHandler(h corev1.ProbeHandler, c *corev1.Container) {
	switch {
	case h.Exec != nil:
		p.Exec = expand(h.Exec.Command, c.Env)
	case h.HTTPGet != nil:
		port, problem := resolvePort(h.HTTPGet.Port, c)
		p.Problem = problem
		p.HTTP = &HTTP{
			Scheme:  cmp.Or(strings.ToLower(string(h.HTTPGet.Scheme)), "http"),
			Host:    h.HTTPGet.Host,
			Port:    port,
			Path:    h.HTTPGet.Path,
			Headers: headers(h.HTTPGet.HTTPHeaders),
		}
	case h.TCPSocket != nil:
		port, problem := resolvePort(h.TCPSocket.Port, c)
		p.Problem = problem
		p.TCP = &TCP{Host: h.TCPSocket.Host, Port: port}
	case h.GRPC != nil:
		p.GRPC = &GRPC{Port: int(h.GRPC.Port)}
		if h.GRPC.Service != nil {
			p.GRPC.Service = *h.GRPC.Service
		}
	default:
		p.Problem = fmt.Sprintf("missing probe handler for %s:%s", p.ID.Ref(), c.Name)
	}
}

// expand replaces $(NAME) in a command. References to names that env does not define remain
// unchanged.
func expand(command []string, env []corev1.EnvVar) []string {
	values := map[string]string{}
	for _, e := range env {
		values[e.Name] = e.Value
	}
	mapping := expansion.MappingFuncFor(values)
	var out []string
	for _, word := range command {
		out = append(out, expansion.Expand(word, mapping))
	}
	return out
}

// headers returns the probe's headers, followed by the kubelet's default headers.
func headers(own []corev1.HTTPHeader) []corev1.HTTPHeader {
	out := slices.Clone(own)
	for _, h := range []corev1.HTTPHeader{{Name: "User-Agent", Value: userAgent}, {Name: "Accept", Value: "*/*"}} {
		if !slices.ContainsFunc(own, func(o corev1.HTTPHeader) bool { return http.CanonicalHeaderKey(o.Name) == h.Name }) {
			out = append(out, h)
		}
	}
	return out
}

// resolvePort returns the number of a port. The port is a number, the name of a container port, or
// a number in quotes. A name that consists of digits takes precedence over the number.
func resolvePort(port intstr.IntOrString, c *corev1.Container) (number int, problem string) {
	number, err := kubeprobe.ResolveContainerPort(port, c)
	switch {
	case err == nil:
		return number, ""
	case port.Type == intstr.String && number <= 0:
		// The kubelet uses the message of strconv, which names neither the port nor the container.
		return 0, fmt.Sprintf("no port of container %s is named %q", c.Name, port.StrVal)
	}
	return 0, err.Error()
}

func (p *Plan) timeout() time.Duration { return time.Duration(p.TimeoutSeconds) * time.Second }
func (p *Plan) period() time.Duration  { return time.Duration(p.PeriodSeconds) * time.Second }

func (p *Plan) initialDelay() time.Duration {
	return time.Duration(p.InitialDelaySeconds) * time.Second
}

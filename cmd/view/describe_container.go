package view

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/kubernetes/pkg/api/v1/resource"
)

func (d *Description) Containers(title string, pod *corev1.Pod, list []corev1.Container, statuses []corev1.ContainerStatus) {
	if len(list) == 0 {
		title += ": <none>"
	} else {
		title += ":"
	}
	d.row(0, d.titleIndent()+title)
	for i := range list {
		c := &list[i]
		var status *corev1.ContainerStatus
		for j := range statuses {
			if statuses[j].Name == c.Name {
				status = &statuses[j]
			}
		}
		d.program(c, status)
		if status != nil {
			d.containerState("State", status.State)
			if status.LastTerminationState.Terminated != nil {
				d.containerState("Last State", status.LastTerminationState)
			}
			d.row(2, "Ready:", map[bool]string{true: "True", false: "False"}[status.Ready])
			d.row(2, "Restart Count:", fmt.Sprint(status.RestartCount))
		}
		d.amounts(2, "Limits", c.Resources.Limits)
		d.amounts(2, "Requests", c.Resources.Requests)
		d.probe("Liveness", c.LivenessProbe)
		d.probe("Readiness", c.ReadinessProbe)
		d.probe("Startup", c.StartupProbe)
		d.environment(pod, c)
		d.mounts(c)
	}
}

// program describes the image and the command of a container, and its ports.
func (d *Description) program(c *corev1.Container, status *corev1.ContainerStatus) {
	d.row(1, d.nameIndent()+c.Name+":")
	if status != nil {
		d.row(2, "Container ID:", status.ContainerID)
	}
	d.row(2, "Image:", c.Image)
	if status != nil {
		d.row(2, "Image ID:", status.ImageID)
	}
	d.ports("Port", c.Ports, func(p corev1.ContainerPort) int32 { return p.ContainerPort })
	d.ports("Host Port", c.Ports, func(p corev1.ContainerPort) int32 { return p.HostPort })
	if c.SecurityContext != nil {
		d.seccomp(2, 3, c.SecurityContext.SeccompProfile)
	}
	d.words("Command", c.Command)
	d.words("Args", c.Args)
}

func (d *Description) ports(title string, ports []corev1.ContainerPort, number func(corev1.ContainerPort) int32) {
	var list []string
	for _, p := range ports {
		text := fmt.Sprintf("%d/%s", number(p), p.Protocol)
		if p.Name != "" {
			text += " (" + p.Name + ")"
		}
		list = append(list, text)
	}
	if len(list) > 1 {
		title += "s"
	}
	d.row(2, title+":", OrNone(strings.Join(list, ", ")))
}

// words lists the words of a command, one per line.
func (d *Description) words(title string, words []string) {
	if len(words) > 0 {
		d.row(2, title+":")
	}
	for _, w := range words {
		for _, line := range strings.Split(w, "\n") {
			d.row(3, line)
		}
	}
}

func (d *Description) containerState(title string, s corev1.ContainerState) {
	switch {
	case s.Running != nil:
		d.row(2, title+":", "Running")
		d.row(3, "Started:", d.time(s.Running.StartedAt))
	case s.Terminated != nil && s.Waiting == nil:
		end := s.Terminated
		d.row(2, title+":", "Terminated")
		d.optionalRow(3, "Reason", end.Reason)
		d.optionalRow(3, "Message", end.Message)
		d.row(3, "Exit Code:", fmt.Sprint(end.ExitCode))
		if end.Signal > 0 {
			d.row(3, "Signal:", fmt.Sprint(end.Signal))
		}
		d.row(3, "Started:", d.time(end.StartedAt))
		d.row(3, "Finished:", d.time(end.FinishedAt))
	default:
		d.row(2, title+":", "Waiting")
		if s.Waiting != nil {
			d.optionalRow(3, "Reason", s.Waiting.Reason)
		}
	}
}

func (d *Description) probe(title string, p *corev1.Probe) {
	if p == nil {
		return
	}
	d.row(2, title+":", fmt.Sprintf("%s delay=%ds timeout=%ds period=%ds #success=%d #failure=%d",
		handlerText(p.ProbeHandler), p.InitialDelaySeconds, p.TimeoutSeconds, p.PeriodSeconds, p.SuccessThreshold, p.FailureThreshold))
}

// handlerText describes the request of a probe.
func handlerText(h corev1.ProbeHandler) string {
	switch {
	case h.Exec != nil:
		return fmt.Sprintf("exec %v", h.Exec.Command)
	case h.HTTPGet != nil:
		u := url.URL{
			Scheme: strings.ToLower(string(h.HTTPGet.Scheme)), Path: h.HTTPGet.Path,
			Host: net.JoinHostPort(h.HTTPGet.Host, h.HTTPGet.Port.String()),
		}
		return "http-get " + u.String()
	case h.TCPSocket != nil:
		return "tcp-socket " + h.TCPSocket.Host + ":" + h.TCPSocket.Port.String()
	case h.GRPC != nil:
		service := ""
		if h.GRPC.Service != nil {
			service = *h.GRPC.Service
		}
		return fmt.Sprintf("grpc <pod>:%d %s", h.GRPC.Port, service)
	}
	return "unknown"
}

// environment lists the variables as the pod declares them. Values from secrets are never
// shown.
func (d *Description) environment(pod *corev1.Pod, c *corev1.Container) {
	if len(c.EnvFrom) > 0 {
		d.row(2, "Environment Variables from:")
	}
	for _, from := range c.EnvFrom {
		d.row(3, envFromCells(from)...)
	}
	if len(c.Env) == 0 {
		d.row(2, "Environment:", "<none>")
		return
	}
	d.row(2, "Environment:")
	for _, e := range c.Env {
		if e.ValueFrom != nil {
			if cells := sourceCells(pod, c, e.ValueFrom); cells != nil {
				d.row(3, append([]string{e.Name + ":"}, cells...)...)
			}
			continue
		}
		for i, line := range strings.Split(e.Value, "\n") {
			if i == 0 {
				d.row(3, e.Name+":", line)
			} else {
				d.row(3, "", line)
			}
		}
	}
}

func envFromCells(from corev1.EnvFromSource) []string {
	name, kind, mayLack := "", "", (*bool)(nil)
	switch {
	case from.ConfigMapRef != nil:
		name, kind, mayLack = from.ConfigMapRef.Name, "ConfigMap", from.ConfigMapRef.Optional
	case from.SecretRef != nil:
		name, kind, mayLack = from.SecretRef.Name, "Secret", from.SecretRef.Optional
	}
	if from.Prefix != "" {
		kind += " with prefix '" + from.Prefix + "'"
	}
	return []string{name, kind, optional(mayLack)}
}

func optional(is *bool) string { return fmt.Sprintf("Optional: %t", is != nil && *is) }

// sourceCells returns the source of a variable's value and, for the few sources that
// kubectl resolves, the value. fileKeyRef, which kubectl omits, is shown like the other
// references.
func sourceCells(pod *corev1.Pod, c *corev1.Container, from *corev1.EnvVarSource) []string {
	switch {
	case from.FieldRef != nil:
		known := map[string]string{"metadata.name": pod.Name, "metadata.namespace": pod.Namespace}
		return []string{fmt.Sprintf("%s (%s:%s)", known[from.FieldRef.FieldPath], from.FieldRef.APIVersion, from.FieldRef.FieldPath)}
	case from.ResourceFieldRef != nil:
		name := from.ResourceFieldRef.Resource
		value, err := apiresource.ExtractContainerResourceValue(from.ResourceFieldRef, c)
		switch {
		case err != nil:
			value = ""
		case value == "0" && (name == "limits.cpu" || name == "limits.memory"):
			value = "node allocatable"
		}
		return []string{fmt.Sprintf("%s (%s)", value, name)}
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		return []string{fmt.Sprintf("<set to the key '%s' in secret '%s'>", ref.Key, ref.Name), optional(ref.Optional)}
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		return []string{fmt.Sprintf("<set to the key '%s' of config map '%s'>", ref.Key, ref.Name), optional(ref.Optional)}
	case from.FileKeyRef != nil:
		ref := from.FileKeyRef
		return []string{fmt.Sprintf("<set to the key '%s' of file '%s' in volume '%s'>", ref.Key, ref.Path, ref.VolumeName), optional(ref.Optional)}
	}
	return nil
}

func (d *Description) mounts(c *corev1.Container) {
	if len(c.VolumeMounts) == 0 {
		d.row(2, "Mounts:", "<none>")
	} else {
		d.row(2, "Mounts:")
	}
	for _, m := range sortedBy(c.VolumeMounts, func(m corev1.VolumeMount) string { return m.MountPath }) {
		mode := "rw"
		if m.ReadOnly {
			mode = "ro"
		}
		if m.SubPath != "" {
			mode += fmt.Sprintf(",path=%q", m.SubPath)
		}
		d.row(3, fmt.Sprintf("%s from %s (%s)", m.MountPath, m.Name, mode))
	}
	if len(c.VolumeDevices) > 0 {
		d.row(2, "Devices:")
	}
	for _, v := range sortedBy(c.VolumeDevices, func(v corev1.VolumeDevice) string { return v.DevicePath }) {
		d.row(3, v.DevicePath+" from "+v.Name)
	}
}

// Ephemeral converts the pod's ephemeral containers to containers.
func Ephemeral(pod *corev1.Pod) []corev1.Container {
	var out []corev1.Container
	for i := range pod.Spec.EphemeralContainers {
		out = append(out, corev1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	return out
}

package generate

import (
	"errors"
	"fmt"
	"net"
	"path"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodFlags are the flags of kubectl run and docker run. Fields that are empty do not appear in
// the pod.
type PodFlags struct {
	// "" means that podrun derives it from the image's name
	Name string
	// Unique makes podrun set metadata.generateName instead of a name if Name is "". Each run then
	// has a different name.
	Unique bool
	Image  string
	Args   []string
	// Args are the command (kubectl run --command), in place of the image's entrypoint
	AsCommand  bool
	Entrypoint string
	Env        []corev1.EnvVar
	Ports      []string // [[IP:]HOSTPORT:]PORT[/PROTOCOL], as for docker run -p
	Volumes    []string // [SOURCE:]PATH[:ro], as for docker run -v
	// a=b,c=d; if it is empty, the label is run=NAME, as in kubectl
	Labels     []string
	Notes      []string // annotations, a=b,c=d
	CPUs       string
	Memory     string // in the units of docker or Kubernetes
	Restart    corev1.RestartPolicy
	Pull       corev1.PullPolicy
	WorkDir    string
	User       string // UID[:GID]
	Hostname   string
	Network    string // "host", or one of docker's names for the default network
	CapAdd     []string
	CapDrop    []string
	Privileged bool
	ReadOnly   bool
	// Init shares the process namespace. Process 1 is then the sandbox's, which reaps zombies. Signals
	// have their default effect on the container's command, as with the init of docker.
	Init       bool
	Stdin, TTY bool
	// CurrentDir is the absolute path of the directory to which relative sources of volumes
	// refer.
	CurrentDir string
}

// Pod returns the pod that the flags describe. The error joins all problems.
func (f *PodFlags) Pod() (*corev1.Pod, error) {
	name := f.Name
	if name == "" {
		name = nameOf(f.Image)
	}
	var errs []error
	fail := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	if f.WorkDir != "" && !path.IsAbs(f.WorkDir) {
		fail(fmt.Errorf("--workdir=%s is not an absolute path", f.WorkDir))
	}
	c := corev1.Container{Name: name, Image: f.Image, Env: f.Env, WorkingDir: f.WorkDir, ImagePullPolicy: f.Pull,
		Stdin: f.Stdin, StdinOnce: f.Stdin, TTY: f.TTY}
	switch {
	case f.Entrypoint != "":
		c.Command = []string{f.Entrypoint}
		c.Args = f.Args
	case f.AsCommand:
		c.Command = f.Args
	default:
		c.Args = f.Args
	}
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		Spec: corev1.PodSpec{RestartPolicy: f.Restart, Hostname: f.Hostname}}
	if f.Init {
		pod.Spec.ShareProcessNamespace = &f.Init
	}
	if pod.Name = name; f.Unique && f.Name == "" {
		pod.Name = ""
		pod.GenerateName = name + "-"
	}
	if name == "" {
		fail(fmt.Errorf("podrun cannot derive a pod name from the image %q: use --name", f.Image))
	}
	var err error
	var problems []error
	c.Resources, problems = limits(f.CPUs, f.Memory)
	errs = append(errs, problems...)
	c.SecurityContext, err = f.securityContext()
	fail(err)
	pod.Spec.HostNetwork, err = hostNetwork(f.Network)
	fail(err)
	pod.Labels, err = labels("labels", f.Labels)
	fail(err)
	if len(f.Labels) == 0 {
		pod.Labels = map[string]string{"run": name}
	}
	if len(f.Notes) > 0 {
		pod.Annotations, err = labels("annotations", f.Notes)
		fail(err)
	}
	for _, text := range f.Ports {
		ports, err := parsePorts(text)
		fail(err)
		c.Ports = append(c.Ports, ports...)
	}
	for i, text := range f.Volumes {
		volume, mount, err := parseVolume(text, f.CurrentDir)
		fail(err)
		volume.Name = "volume-" + strconv.Itoa(i+1)
		mount.Name = volume.Name
		pod.Spec.Volumes = append(pod.Spec.Volumes, volume)
		c.VolumeMounts = append(c.VolumeMounts, mount)
	}
	pod.Spec.Containers = []corev1.Container{c}
	return pod, errors.Join(errs...)
}

func (f *PodFlags) securityContext() (*corev1.SecurityContext, error) {
	var s corev1.SecurityContext
	if f.Privileged {
		s.Privileged = new(true)
	}
	if f.ReadOnly {
		s.ReadOnlyRootFilesystem = new(true)
	}
	if len(f.CapAdd)+len(f.CapDrop) > 0 {
		s.Capabilities = &corev1.Capabilities{Add: capabilities(f.CapAdd), Drop: capabilities(f.CapDrop)}
	}
	if f.User != "" {
		user, group, hasGroup := strings.Cut(f.User, ":")
		uid, err := strconv.ParseUint(user, 10, 31)
		if err == nil {
			s.RunAsUser = new(int64(uid))
		}
		if hasGroup && err == nil {
			var gid uint64
			gid, err = strconv.ParseUint(group, 10, 31)
			s.RunAsGroup = new(int64(gid))
		}
		if err != nil {
			return nil, fmt.Errorf("--user=%s is not of the form UID or UID:GID: a pod requires numbers", f.User)
		}
	}
	if s == (corev1.SecurityContext{}) {
		return nil, nil
	}
	return &s, nil
}

// capabilities converts the names of capabilities that docker accepts, such as cap_net_admin.
func capabilities(names []string) []corev1.Capability {
	var out []corev1.Capability
	for _, name := range names {
		out = append(out, corev1.Capability(strings.TrimPrefix(strings.ToUpper(name), "CAP_")))
	}
	return out
}

// hostNetwork reports whether --network requests the host's network.
func hostNetwork(name string) (bool, error) {
	switch name {
	case "host":
		return true, nil
	case "", "bridge", "default":
		return false, nil
	}
	return false, fmt.Errorf("--network=%s is not host or bridge: the CNI configuration of the container runtime defines the network of pods", name)
}

// maxPortRange limits the number of ports of one range.
const maxPortRange = 1000

// parsePorts converts [[IP:]HOSTPORT:]PORT[/PROTOCOL]. As in docker, HOSTPORT and PORT may be ranges of the same
// length, such as 8000-8002.
func parsePorts(text string) ([]corev1.ContainerPort, error) {
	invalid := fmt.Errorf("--publish=%s is not of the form [[IP:]HOSTPORT:]PORT[/PROTOCOL]", text)
	rest, protocol, _ := strings.Cut(text, "/")
	port := corev1.ContainerPort{Protocol: corev1.Protocol(strings.ToUpper(protocol))}
	var hostFirst, hostLast int32
	if i := strings.LastIndex(rest, ":"); i >= 0 {
		host := rest[:i]
		rest = rest[i+1:]
		if i := strings.LastIndex(host, ":"); i >= 0 {
			port.HostIP, host = strings.Trim(host[:i], "[]"), host[i+1:]
			if net.ParseIP(port.HostIP) == nil {
				return nil, invalid
			}
		}
		if hostFirst, hostLast = portRange(host); hostFirst == 0 {
			return nil, invalid
		}
	}
	first, last := portRange(rest)
	switch {
	case first == 0:
		return nil, invalid
	case last-first >= maxPortRange:
		return nil, fmt.Errorf("--publish=%s: the range has more than %d ports", text, maxPortRange)
	case hostFirst > 0 && hostLast-hostFirst != last-first:
		return nil, fmt.Errorf("--publish=%s: the ranges of ports have different lengths", text)
	}
	var ports []corev1.ContainerPort
	for n := range last - first + 1 {
		port.ContainerPort = first + n
		if hostFirst > 0 {
			port.HostPort = hostFirst + n
		}
		ports = append(ports, port)
	}
	return ports, nil
}

// portRange parses PORT or FIRST-LAST. It returns 0 if text is neither.
func portRange(text string) (first, last int32) {
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	low, err := strconv.ParseUint(from, 10, 16)
	if err != nil {
		return 0, 0
	}
	high, err := strconv.ParseUint(to, 10, 16)
	if err != nil || low > high {
		return 0, 0
	}
	return int32(low), int32(high)
}

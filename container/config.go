package container

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
)

// Late contains the values that are not known before the sandbox, the image and the volumes exist.
type Late struct {
	// in the order of status.podIPs; empty if the pod uses the host's network, whose addresses are in
	// HostIPs
	PodIPs  []string
	HostIPs []string // nil means the node IPs in Facts

	ImageID       string // the runtime's ID of the image
	ImageUID      *int64 // the image's user, if it is numeric
	ImageUsername string // the image's user, if it is a name

	TargetID string // the ID of the plan's Target

	// ServiceEnv contains the variables of Services. As in the kubelet, the container's own variables
	// take precedence, and may refer to the variables of Services.
	ServiceEnv []corev1.EnvVar

	Attempt uint32 // the restart count; 0 for the first container with that name

	// TerminationLogPath is a file on the host with mode 0666. It is in Layout.Container, and its
	// name is 8 random hex digits. If TerminationLogPath is "", the container does not mount such a
	// file.
	TerminationLogPath string
	// path on the host; "" means that the container does not mount the file
	EtcHostsPath string
	Mounts       map[string]MountSource // mount sources, by volume name
	// SubpathPaths are paths on the host for those mounts in Subpaths that podrun prepares. The
	// keys are indexes in volumeMounts.
	SubpathPaths map[int]string
	// values of fileKeyRefs; a missing key has no entry
	FileValues map[FileKey]string
}

// FileKey identifies a variable in a file of a volume (KEP-3721).
type FileKey struct{ Volume, Path, Key string }

// Config returns the configuration that podrun sends to the runtime. The error is a
// *problem.Error with the text of the kubelet's CreateContainerConfigError.
func (p Plan) Config(late Late) (*runtimeapi.ContainerConfig, error) {
	if err := p.VerifyUser(late.ImageUID, late.ImageUsername); err != nil {
		return nil, err
	}
	config, problems := p.config(late)
	if err := problem.Refuse(problem.Manifest, problems); err != nil {
		return nil, err
	}
	return config, nil
}

// config implements Config, Preview and New. New uses only the problems and the size of the text.
// It may return both a config and problems.
func (p Plan) config(late Late) (*runtimeapi.ContainerConfig, problem.List) {
	if late.HostIPs == nil {
		late.HostIPs = p.in.Facts.NodeIPs
	}
	if len(late.PodIPs) == 0 && p.in.Pod.Spec.HostNetwork {
		late.PodIPs = late.HostIPs
	}
	config := proto.Clone(p.base).(*runtimeapi.ContainerConfig)
	config.Metadata.Attempt = late.Attempt
	config.Annotations[identity.AnnotationRestartCount] = strconv.FormatUint(uint64(late.Attempt), 10)
	config.LogPath = identity.LogPath(p.Name, late.Attempt)
	config.Image = &runtimeapi.ImageSpec{Image: late.ImageID, UserSpecifiedImage: p.Image}
	setImageUser(config.Linux.SecurityContext, late)
	setTarget(config.Linux.SecurityContext, late)

	env, problems := p.environment(late)
	config.Envs = env.keyValues()
	var long [2]problem.List
	config.Command, long[0] = p.expand("command", p.container.Command, &env)
	config.Args, long[1] = p.expand("args", p.container.Args, &env)

	mounts, more := p.mounts(late, &env)
	config.Mounts = mounts
	problems = slices.Concat(problems, long[0], long[1], more)
	config.Devices, more = p.devices(late)
	return config, append(problems, more...)
}

// setImageUser sets the image's user if the pod does not set a user. An image without a user runs as root, which the
// kubelet sets explicitly.
func setImageUser(sc *runtimeapi.LinuxContainerSecurityContext, late Late) {
	if sc.RunAsUser != nil {
		return
	}
	switch {
	case late.ImageUID != nil:
		sc.RunAsUser = &runtimeapi.Int64Value{Value: *late.ImageUID}
	case late.ImageUsername != "":
		sc.RunAsUsername = late.ImageUsername
	default:
		sc.RunAsUser = &runtimeapi.Int64Value{}
	}
}

// setTarget puts an ephemeral container into the PID namespace of its target. It does nothing if
// the container already shares the PID namespace of the pod or the host
// (generateLinuxContainerConfig in pkg/kubelet/kuberuntime).
func setTarget(sc *runtimeapi.LinuxContainerSecurityContext, late Late) {
	if n := sc.NamespaceOptions; late.TargetID != "" && n.GetPid() == runtimeapi.NamespaceMode_CONTAINER {
		n.Pid, n.TargetId = runtimeapi.NamespaceMode_TARGET, late.TargetID
	}
}

// expand replaces $(VAR) in each word of a field.
func (p Plan) expand(field string, words []string, env *environ) ([]string, problem.List) {
	var out []string
	for i, w := range words {
		at := fmt.Sprintf("%s[%d]", field, i)
		word, fits := env.expand(w)
		if !fits || !env.spend(len(word)) {
			return out, problem.List{p.tooLong(at)}
		}
		if bad := p.word(at, word); bad != nil {
			return out, problem.List{*bad}
		}
		out = append(out, word)
	}
	return out, nil
}

// placeholders returns placeholders, for a printed plan, for values that are not known yet.
func (p Plan) placeholders(mounts map[string]MountSource) Late {
	late := Late{
		ImageID:       "(imageID)",
		ImageUsername: "(imageUser)",
		EtcHostsPath:  p.in.Layout.Pod(p.in.ID.UID).EtcHosts(),
		Mounts:        map[string]MountSource{},
		SubpathPaths:  map[int]string{},
		FileValues:    map[FileKey]string{},
	}
	if p.Target != "" {
		late.TargetID = "(container " + p.Target + ")"
	}
	if !p.in.Pod.Spec.HostNetwork {
		late.PodIPs = []string{"(podIP)"}
	}
	if len(p.in.Facts.NodeIPs) == 0 {
		late.HostIPs = []string{"(hostIP)"}
	}
	if p.container.TerminationMessagePath != "" {
		late.TerminationLogPath = filepath.Join(p.in.Layout.Pod(p.in.ID.UID).Container(p.Name), "(random)")
	}
	for _, d := range p.container.VolumeDevices {
		late.Mounts[d.Name] = MountSource{Device: "(volume " + d.Name + ")"}
	}
	for i, m := range p.container.VolumeMounts {
		late.Mounts[m.Name] = MountSource{HostPath: "(volume " + m.Name + ")"}
		late.SubpathPaths[i] = p.in.Layout.Pod(p.in.ID.UID).Subpath(m.Name, p.Name, i)
	}
	for name := range late.Mounts {
		if known, ok := mounts[name]; ok {
			late.Mounts[name] = known
		}
	}
	for _, k := range p.FileKeys() {
		late.FileValues[k] = "(" + k.Key + " of " + k.Path + ")"
	}
	return late
}

package container

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/internal/problem"
)

// WithDevices returns the plan with CDI devices. Their names are fully qualified.
func (p Plan) WithDevices(names []string) Plan {
	if len(names) == 0 || p.base == nil {
		return p
	}
	p.base = proto.CloneOf(p.base)
	p.base.CDIDevices = nil
	for _, name := range names {
		p.base.CDIDevices = append(p.base.CDIDevices, &runtimeapi.CDIDevice{Name: name})
	}
	return p
}

// devices returns the devices for the container's block volumes, in the order of volumeDevices.
func (p Plan) devices(late Late) ([]*runtimeapi.Device, problem.List) {
	var out []*runtimeapi.Device
	var problems problem.List
	for i, d := range p.container.VolumeDevices {
		source, ok := late.Mounts[d.Name]
		if !ok || source.Device == "" {
			problems = append(problems, p.problem(fmt.Sprintf("volumeDevices[%d]", i), reasonConfig,
				"volume %q has volumeMode Filesystem, but is specified in volumeDevices", d.Name))
			continue
		}
		permissions := "mrw"
		if source.ReadOnly {
			permissions = "r"
		}
		out = append(out, &runtimeapi.Device{HostPath: source.Device, ContainerPath: d.DevicePath, Permissions: permissions})
	}
	return out, problems
}

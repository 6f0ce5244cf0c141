package volume

import (
	"fmt"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
)

func field(index int, kind string) string { return fmt.Sprintf("spec.volumes[%d].%s", index, kind) }

// whyNot maps unsupported volume kinds to the reason why a host without a cluster cannot support
// them, with alternatives.
var whyNot = map[string]string{
	"csi":        "CSI drivers require a kubelet; mount the storage on the host and use hostPath",
	"flexVolume": "FlexVolume drivers require a kubelet; mount the storage on the host and use hostPath",
	"gitRepo":    "the kubelet no longer supports it; mount an emptyDir, and clone the repository into it with an init container",
	"iscsi":      "attach and mount the storage on the host and use hostPath",
	"fc":         "attach and mount the storage on the host and use hostPath",
	"cephfs":     "mount the storage on the host and use hostPath",
	"rbd":        "attach and mount the storage on the host and use hostPath",
	"glusterfs":  "mount the storage on the host and use hostPath",
}

func unsupported(id identity.Pod, index int, kind string) problem.Problem {
	hint := whyNot[kind]
	if hint == "" {
		hint = "use emptyDir, hostPath, or a persistentVolumeClaim with --pvc NAME=DIR"
	}
	return problem.Problem{
		Object:  "Pod " + id.String(),
		Field:   field(index, kind),
		Reason:  "UnsupportedVolume",
		Message: fmt.Sprintf("volume kind %s is not supported", kind),
		Hint:    hint,
	}
}

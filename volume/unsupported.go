package volume

import (
	"fmt"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
)

func field(index int, kind string) string { return fmt.Sprintf("spec.volumes[%d].%s", index, kind) }

// whyNot maps volume kinds to the reason why they are not supported on a host without a
// cluster, with alternatives.
var whyNot = map[string]string{
	"csi":        "CSI drivers require a kubelet; mount it on the host and use hostPath",
	"flexVolume": "these drivers require a kubelet; mount it on the host and use hostPath",
	"gitRepo":    "removed from the kubelet; clone in an init container into an emptyDir",
	"iscsi":      "attach and mount it on the host and use hostPath",
	"fc":         "attach and mount it on the host and use hostPath",
	"cephfs":     "mount it on the host and use hostPath",
	"rbd":        "attach and mount it on the host and use hostPath",
	"glusterfs":  "mount it on the host and use hostPath",
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

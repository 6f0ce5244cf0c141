package volume

import (
	"fmt"

	"github.com/podrun/podrun/identity"
	"github.com/podrun/podrun/problem"
)

func field(index int, kind string) string { return fmt.Sprintf("spec.volumes[%d].%s", index, kind) }

func unsupported(id identity.Pod, index int, kind string) problem.Problem {
	return problem.Problem{
		Object:  "Pod " + id.String(),
		Field:   field(index, kind),
		Reason:  "UnsupportedVolume",
		Message: fmt.Sprintf("volume kind %s is not supported yet", kind),
		Hint:    "use emptyDir or hostPath",
	}
}

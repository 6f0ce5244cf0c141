package start

import (
	"fmt"
	"regexp"
	"sync"

	"github.com/podrun/podrun/host"
)

// sandboxImage returns the name of the sandbox image if err means that the runtime could not create a sandbox
// because it could not pull this image. Otherwise it returns "".
func sandboxImage(err error) string {
	if m := unpulled().FindStringSubmatch(err.Error()); m != nil {
		return m[1] + m[2]
	}
	return ""
}

func sandboxImageHint(image string, runtime host.Runtime) string {
	return fmt.Sprintf("the runtime's sandbox (pause) image %s was not found and cannot be pulled: %s, or set %s to an image that is present on this host", image, runtime.LoadImage(), runtime.SandboxKey())
}

// unpulled matches the errors with which containerd 1.6 to 2.1, containerd 2.4 and CRI-O report that
// they could not pull the sandbox image. A sandbox requires no other image.
var unpulled = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`failed to (?:get sandbox|pull) image "([^"]+)"|initializing source docker://(\S+): `)
})

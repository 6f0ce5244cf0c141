package prepare

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lifecycle"
)

// imageProblems returns the problems of images that are present and that podrun will not pull. Each
// start of a container checks the container's image again, because an image can change
// (CVE-2019-11245).
func (p *Plan) imageProblems() problem.List {
	if p.Runs() {
		// the pod's containers were already started
		return nil
	}
	var out problem.List
	for _, image := range p.Images.Images {
		here, known := p.Facts.Images[image.Ref]
		if !known || image.Policy == corev1.PullAlways {
			continue
		}
		for _, c := range image.Containers {
			plan, field := p.Container(c.Name), lifecycle.FindContainer(p.Pod, c.Name).Field
			if plan == nil {
				continue // the image is for a volume
			}
			if err := plan.VerifyNonRoot(here.UID, here.Username); err != nil {
				out = append(out, problem.Problem{Field: field, Reason: "CreateContainerConfigError", Message: err.Error(),
					Hint: "set securityContext.runAsUser, or use an image with a numeric user other than 0"})
			}
			if !RunsOnHost(here, p.Facts) {
				out = append(out, problem.Problem{Field: field + ".image", Reason: "ImagePlatform",
					Message: fmt.Sprintf("image %q is for %s/%s, but this host is %s/%s", image.Name, here.OS, here.Arch, p.Facts.OS, p.Facts.Arch),
					Hint:    "remove it with 'podrun image rm' and pull it for this host, or install an emulator (qemu-user-static)"})
			}
		}
	}
	return out
}

// emulators maps architectures to QEMU's names for them.
var emulators = map[string]string{
	"amd64":    "x86_64",
	"386":      "i386",
	"arm64":    "aarch64",
	"arm":      "arm",
	"ppc64le":  "ppc64le",
	"s390x":    "s390x",
	"riscv64":  "riscv64",
	"loong64":  "loongarch64",
	"mips64le": "mips64el",
}

// RunsOnHost reports whether this host can run an image's programs. It can if the image is for the
// host's architecture or its 32-bit variant, or if the host can emulate the image's architecture. It
// returns true if the image's architecture is unknown.
func RunsOnHost(image host.Image, facts host.Facts) bool {
	switch {
	case image.OS != "" && facts.OS != "" && image.OS != facts.OS:
		return false
	case image.Arch == "" || facts.Arch == "" || image.Arch == facts.Arch:
		return true
	case facts.Arch == "amd64" && image.Arch == "386", facts.Arch == "arm64" && image.Arch == "arm":
		return true
	}
	return emulators[image.Arch] != "" && slices.Contains(facts.Emulated, emulators[image.Arch])
}

package container

import (
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/securitycontext"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
)

// VerifyRunAsNonRoot returns an error for a container that must not run as root, but would. podrun
// must call it before every start, and not only after a pull (CVE-2019-11245). It should call it as
// soon as the image is present. The arguments uid and username are the image's user
// (cri.ImageUser). The messages are the kubelet's, because users may search for them.
func VerifyRunAsNonRoot(pod *corev1.Pod, c *corev1.Container, uid *int64, username string) error {
	sc := securitycontext.DetermineEffectiveSecurityContext(pod, c)
	if sc.RunAsNonRoot == nil || !*sc.RunAsNonRoot {
		return nil
	}
	id := identity.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)}
	refuse := func(format string, args ...any) error {
		return fmt.Errorf(format+" (pod: %q, container: %s)", append(args, id.Ref(), c.Name)...)
	}
	switch {
	case sc.RunAsUser != nil && *sc.RunAsUser == 0:
		return refuse("container's runAsUser breaks non-root policy")
	case sc.RunAsUser != nil:
		return nil
	case uid == nil && username != "":
		return refuse("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root", username)
	case uid == nil:
		return nil
	case *uid == 0:
		return refuse("container has runAsNonRoot and image will run as root")
	case *uid < 0 || *uid > math.MaxInt32:
		return refuse("container has runAsNonRoot and image has an invalid user id (%d)", *uid)
	}
	return nil
}

// VerifyNonRoot is VerifyRunAsNonRoot for a planned container.
func (p Plan) VerifyNonRoot(uid *int64, username string) error {
	return VerifyRunAsNonRoot(p.in.Pod, p.container, uid, username)
}

// VerifyUser is like VerifyNonRoot, but returns a *problem.Error.
func (p Plan) VerifyUser(uid *int64, username string) error {
	if err := VerifyRunAsNonRoot(p.in.Pod, p.container, uid, username); err != nil {
		return &problem.Error{Kind: problem.Refused, Object: "container " + p.Name, Err: err}
	}
	return nil
}

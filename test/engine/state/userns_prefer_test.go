package state

import (
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestServeKeepsUserNamespaces checks that serve and apply do not change existing pods when the
// setting userNamespaces changes, and that the setting applies to new pods.
func TestServeKeepsUserNamespaces(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		s.Files.Write(rig.File("web"), rig.ServedPod("web"))
		time.Sleep(5 * time.Second)
		web := s.Running("web")
		s.Settings.UserNamespaces = nodeconfig.UserNamespacesPrefer
		s.Restart()
		s.Files.Write(rig.File("db"), rig.ServedPod("db"))
		time.Sleep(5 * time.Second)
		db := s.Running("db")
		targets, _, err := s.Engine().Prepare(t.Context(), rig.Load(t, rig.ServedPod("new")), node.PrepareOptions{AllowKubelet: true})
		if err != nil {
			t.Fatal(err)
		}
		if view, err := targets[0].View(); err != nil || strings.HasPrefix(view.UserNamespace, "none: Linux ") || strings.HasPrefix(view.UserNamespace, "none: user.max") {
			t.Skipf("no pod has a user namespace by default: %s, %v", view.UserNamespace, err)
		}
		if pod := s.Pod("db"); pod.Spec.HostUsers == nil || *pod.Spec.HostUsers || pod.Annotations[identity.AnnotationUserNamespace] != identity.UserNamespacePreferred {
			t.Errorf("db has hostUsers %v, annotations %v", pod.Spec.HostUsers, pod.Annotations)
		}
		if web := s.Pod("web"); web.Spec.HostUsers != nil {
			t.Errorf("web has hostUsers %t", *web.Spec.HostUsers)
		}
		s.MustApply(rig.ServedPod("web"), run.OutcomeUnchanged)
		s.MustApply(rig.ServedPod("db"), run.OutcomeUnchanged)
		s.Settings.UserNamespaces = ""
		s.Restart()
		time.Sleep(5 * time.Second)
		s.Same(web)
		s.Same(db)
		s.MustApply(rig.ServedPod("db"), run.OutcomeUnchanged)
	}, critest.Version("containerd", "v2.0.0"), critest.Handler("", &runtimeapi.RuntimeHandlerFeatures{UserNamespaces: true}))
}

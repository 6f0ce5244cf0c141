package engine

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
)

// TestServeKeepsUserNamespaces checks that serve and apply do not change existing pods when the
// setting userNamespaces changes, and that the setting applies to new pods.
func TestServeKeepsUserNamespaces(t *testing.T) {
	t.Parallel()
	serveTest(t, func(t *testing.T, s *serving) {
		s.files.write(file("web"), servedPod("web"))
		time.Sleep(5 * time.Second)
		web := s.running("web")
		s.settings.UserNamespaces = nodeconfig.UserNamespacesPrefer
		s.restart()
		s.files.write(file("db"), servedPod("db"))
		time.Sleep(5 * time.Second)
		db := s.running("db")
		targets, _, err := s.engine().Prepare(t.Context(), load(t, servedPod("new")), node.PrepareOptions{AllowKubelet: true})
		if err != nil {
			t.Fatal(err)
		}
		if view, err := targets[0].View(); err != nil || strings.HasPrefix(view.UserNamespace, "none: Linux ") || strings.HasPrefix(view.UserNamespace, "none: user.max") {
			t.Skipf("no pod has a user namespace by default: %s, %v", view.UserNamespace, err)
		}
		if pod := s.got("db"); pod.Spec.HostUsers == nil || *pod.Spec.HostUsers || pod.Annotations[identity.AnnotationUserNamespace] != identity.UserNamespacePreferred {
			t.Errorf("db has hostUsers %v, annotations %v", pod.Spec.HostUsers, pod.Annotations)
		}
		if web := s.got("web"); web.Spec.HostUsers != nil {
			t.Errorf("web has hostUsers %t", *web.Spec.HostUsers)
		}
		s.mustApply(servedPod("web"), run.OutcomeUnchanged)
		s.mustApply(servedPod("db"), run.OutcomeUnchanged)
		s.settings.UserNamespaces = ""
		s.restart()
		time.Sleep(5 * time.Second)
		s.same(web)
		s.same(db)
		s.mustApply(servedPod("db"), run.OutcomeUnchanged)
	}, critest.Version("containerd", "v2.0.0"), critest.Handler("", &runtimeapi.RuntimeHandlerFeatures{UserNamespaces: true}))
}

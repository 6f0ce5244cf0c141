package update

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/test/engine/rig"
)

// pending returns the condition of a pod whose definition is not in effect, or nil.
func pending(s *rig.Supervised, name string) *corev1.PodCondition {
	s.T.Helper()
	for _, c := range s.Pod(name).Status.Conditions {
		if c.Type == store.UpdatePending {
			return &c
		}
	}
	return nil
}

// TestServePendingUpdate covers a changed file that podrun cannot put into effect. The old pod must
// continue to run under supervision, and get, events and the summary must show the pending definition
// until the file changes again.
func TestServePendingUpdate(t *testing.T) {
	for _, test := range []struct{ name, from, to, reason, message string }{
		{"the image of an update in place", "app:1", "absent:1", "ImagePullBackOff", "registry.example/absent:1"},
		{"the image of a replacement", "app:1", "absent:1, args: [x]", "ImagePullBackOff", "registry.example/absent:1"},
		{"the resources", "app:1", "app:1, resources: {requests: {memory: 4000Ti}}, args: [x]", "OutOfmemory", "memory"},
		{"a resize", "app:1", "app:1, resources: {requests: {memory: 4000Ti}}", "OutOfmemory", "memory"},
	} {
		t.Run(test.name, func(t *testing.T) {
			rig.ServeWithoutCgroups(t, func(t *testing.T, s *rig.Supervised) {
				good := strings.Replace(rig.ServedPod("web"), "app:1", "app:1, resources: {requests: {memory: 10Mi}}", 1)
				if test.name != "a resize" {
					good = rig.ServedPod("web")
				}
				s.Files.Write(rig.File("web"), good)
				time.Sleep(time.Minute)
				web := s.Running("web")
				bad := strings.Replace(rig.ServedPod("web"), test.from, test.to, 1)
				s.Files.Write(rig.File("web"), bad)
				begun := time.Now()
				time.Sleep(20 * time.Minute)
				s.Same(web)
				c := pending(s, "web")
				if c == nil {
					t.Fatalf("no condition; warnings %q, events %q", s.Warnings(), s.Reasons())
				}
				if c.Status != corev1.ConditionTrue || c.Reason != test.reason || !strings.Contains(c.Message, test.message) || !strings.Contains(c.Message, rig.File("web")) || !strings.Contains(c.Message, "next attempt at ") {
					t.Errorf("condition %+v", c)
				}
				if age := c.LastTransitionTime.Sub(begun); age < 0 || age > 10*time.Second {
					t.Errorf("pending since %s after the change", age)
				}
				if p := s.Supervisor.Summary().Pending; len(p) != 1 || p[0].Name != "web" || p[0].Reason != test.reason {
					t.Errorf("summary %+v", p)
				}
				if !s.Emitted("UpdatePending", test.message) {
					t.Errorf("events %q", s.Reasons())
				}
				if n := strings.Count(strings.Join(s.Reasons(), " "), "UpdatePending"); n != 1 {
					t.Errorf("reported %d times: %q", n, s.Reasons())
				}
				// The old pod is still supervised.
				s.Exit("web", 1)
				time.Sleep(time.Minute)
				if again := s.Running("web"); again.ID == web.ID {
					t.Error("the container was not restarted")
				}
				s.Restart()
				time.Sleep(10 * time.Minute)
				if after := pending(s, "web"); after == nil || !after.LastTransitionTime.Equal(&c.LastTransitionTime) {
					t.Errorf("after a restart of the supervisor: %+v, want it pending since %s", after, c.LastTransitionTime)
				}
				s.Files.Write(rig.File("web"), good)
				time.Sleep(10 * time.Second)
				if c := pending(s, "web"); c != nil || len(s.Supervisor.Summary().Pending) > 0 {
					t.Errorf("after the file changed back: %+v", c)
				}
				s.Files.Write(rig.File("web"), bad)
				time.Sleep(time.Minute)
				s.Files.Write(rig.File("web"), strings.Replace(rig.ServedPod("web"), "app:1", "app:2, args: [z]", 1))
				time.Sleep(20 * time.Second)
				if c := pending(s, "web"); c != nil || len(s.Supervisor.Summary().Pending) > 0 {
					t.Errorf("after the update: %+v", c)
				}
				for _, c := range s.Pod("web").Status.Conditions {
					if c.Type == corev1.PodResizePending {
						t.Errorf("after the update: %+v", c)
					}
				}
				s.Running("web")
			})
		})
	}
}

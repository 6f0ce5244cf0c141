package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run/store"
)

// replicated is a Deployment with three replicas and a progress deadline.
func replicated(image, container string) string {
	return `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, annotations: {podrun.dev/replicas: honour, podrun.dev/progress-deadline: 2m}}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: c, image: registry.example/` + image + container + `}]
`
}

// images returns the images of the running containers, by pod.
func (s *serving) replicaImages() map[string]string {
	out := map[string]string{}
	for _, c := range s.rt.Containers() {
		if c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			out[c.Config.GetLabels()["io.kubernetes.pod.name"]] = strings.TrimPrefix(c.Config.GetImage().GetUserSpecifiedImage(), "registry.example/")
		}
	}
	return out
}

func (s *serving) wantImages(want string) {
	s.t.Helper()
	if got, all := fmt.Sprint(s.replicaImages()), fmt.Sprintf("map[web:%[1]s web-1:%[1]s web-2:%[1]s]", want); got != all {
		s.t.Errorf("images %s, want %s; events %q; warnings %q", got, all, s.reasons(), s.warnings)
	}
}

var allReplicas = []string{"web", "web-1", "web-2"}

// TestServeRollsBackReplicas updates a Deployment with three replicas: one replica after the other, and all go back if one is
// bad, also those that have passed.
func TestServeRollsBackReplicas(t *testing.T) {
	for _, test := range []struct {
		name      string
		bad, most int // the number of the replica that is bad, and the number of replicas that are ever updated
	}{{"the first one", 1, 1}, {"the second one", 2, 2}, {"the last one", 3, 3}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			serveTestWithoutGroups(t, func(t *testing.T, s *serving) {
				s.files.write(file("web"), replicated("app:1", ""))
				time.Sleep(time.Minute)
				s.wantImages("app:1")
				for _, name := range allReplicas {
					s.wantUpdate(name, store.UpdateGood)
				}
				// A good update replaces one replica after the other.
				s.files.write(file("web"), replicated("app:2", ""))
				for range 60 {
					time.Sleep(time.Second)
					if n := len(s.replicaImages()); n < 2 {
						t.Errorf("%d replicas run during the update", n)
					}
				}
				s.wantImages("app:2")
				for _, name := range allReplicas {
					s.wantUpdate(name, store.UpdateGood)
				}
				// The probe fails in the bad replica.
				updated := map[string]bool{}
				for _, name := range allReplicas {
					s.rt.ScriptExec(name+"/c", func([]string) *critest.Exec {
						if updated[name] = true; len(updated) >= test.bad {
							return &critest.Exec{ExitCode: 1}
						}
						return &critest.Exec{}
					})
				}
				s.files.write(file("web"), replicated("app:1", ", readinessProbe: {exec: {command: [ok]}, periodSeconds: 2}"))
				time.Sleep(10 * time.Minute)
				s.wantImages("app:2")
				if len(updated) != test.most {
					t.Errorf("updated %v", updated)
				}
				if n := s.rolledBack(); n != test.most {
					t.Errorf("%d rollbacks: %q", n, s.reasons())
				}
				for _, name := range allReplicas {
					if c := s.pending(name); c == nil || c.Reason != "RolledBack" {
						t.Errorf("%s: condition %+v", name, c)
					}
				}
				s.restart()
				time.Sleep(time.Hour)
				s.wantImages("app:2")
				s.files.write(file("web"), replicated("app:1", ", args: [last]"))
				time.Sleep(2 * time.Minute)
				s.wantImages("app:1")
				for _, name := range allReplicas {
					s.wantUpdate(name, store.UpdateGood)
				}
			})
		})
	}
}

// failProbes makes the probes of the given replica fail, and those of the others succeed.
func (s *serving) failProbes(bad string) {
	for _, name := range allReplicas {
		s.rt.ScriptExec(name+"/c", func([]string) *critest.Exec {
			if name == bad {
				return &critest.Exec{ExitCode: 1}
			}
			return &critest.Exec{}
		})
	}
}

package update

import (
	"fmt"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/test/engine/rig"
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
func replicaImages(s *rig.Host) map[string]string {
	out := map[string]string{}
	for _, c := range s.Runtime.Containers() {
		if c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			out[c.Config.GetLabels()["io.kubernetes.pod.name"]] = strings.TrimPrefix(c.Config.GetImage().GetUserSpecifiedImage(), "registry.example/")
		}
	}
	return out
}

func wantImages(s *rig.Host, want string) {
	s.T.Helper()
	if got, all := fmt.Sprint(replicaImages(s)), fmt.Sprintf("map[web:%[1]s web-1:%[1]s web-2:%[1]s]", want); got != all {
		s.T.Errorf("images %s, want %s; events %q; warnings %q", got, all, s.Reasons(), s.Warnings())
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
			rig.ServeWithoutCgroups(t, func(t *testing.T, s *rig.Supervised) {
				s.Files.Write(rig.File("web"), replicated("app:1", ""))
				time.Sleep(time.Minute)
				wantImages(s.Host, "app:1")
				for _, name := range allReplicas {
					wantUpdate(s, name, store.UpdateGood)
				}
				// A good update replaces one replica after the other.
				s.Files.Write(rig.File("web"), replicated("app:2", ""))
				for range 60 {
					time.Sleep(time.Second)
					if n := len(replicaImages(s.Host)); n < 2 {
						t.Errorf("%d replicas run during the update", n)
					}
				}
				wantImages(s.Host, "app:2")
				for _, name := range allReplicas {
					wantUpdate(s, name, store.UpdateGood)
				}
				// The probe fails in the bad replica.
				updated := map[string]bool{}
				for _, name := range allReplicas {
					s.Runtime.ScriptExec(name+"/c", func([]string) *critest.Exec {
						if updated[name] = true; len(updated) >= test.bad {
							return &critest.Exec{ExitCode: 1}
						}
						return &critest.Exec{}
					})
				}
				s.Files.Write(rig.File("web"), replicated("app:1", ", readinessProbe: {exec: {command: [ok]}, periodSeconds: 2}"))
				time.Sleep(10 * time.Minute)
				wantImages(s.Host, "app:2")
				if len(updated) != test.most {
					t.Errorf("updated %v", updated)
				}
				if n := rolledBack(s); n != test.most {
					t.Errorf("%d rollbacks: %q", n, s.Reasons())
				}
				for _, name := range allReplicas {
					if c := pending(s, name); c == nil || c.Reason != "RolledBack" {
						t.Errorf("%s: condition %+v", name, c)
					}
				}
				s.Restart()
				time.Sleep(time.Hour)
				wantImages(s.Host, "app:2")
				s.Files.Write(rig.File("web"), replicated("app:1", ", args: [last]"))
				time.Sleep(2 * time.Minute)
				wantImages(s.Host, "app:1")
				for _, name := range allReplicas {
					wantUpdate(s, name, store.UpdateGood)
				}
			})
		})
	}
}

// failProbes makes the probes of the given replica fail, and those of the others succeed.
func failProbes(s *rig.Host, bad string) {
	for _, name := range allReplicas {
		s.Runtime.ScriptExec(name+"/c", func([]string) *critest.Exec {
			if name == bad {
				return &critest.Exec{ExitCode: 1}
			}
			return &critest.Exec{}
		})
	}
}

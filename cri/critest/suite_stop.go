package critest

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// testSignals stops containers with a grace period. The reaction of a program to TERM depends on
// its trap, and on whether it is process 1 of its namespace.
func (s *suite) testSignals(t *testing.T) {
	p := s.pod(t)
	loop := "echo up; while :; do sleep 0.05; done"
	for i, c := range []struct {
		command []string
		hostPID bool
		code    int32
		// Each script prints "up" when it is ready for TERM.
	}{
		{[]string{"sh", "-c", "trap 'exit 4' TERM; " + loop}, false, 4},
		{[]string{"sh", "-c", "trap exit TERM; " + loop}, false, 0},
		{[]string{"sh", "-c", "trap 'exit 5' TERM; echo up; sleep 1000 & wait"}, false, 5},
		{[]string{"sh", "-c", loop}, false, 137},
		{[]string{"sh", "-c", "echo up; exec sleep 1000"}, false, 137},
		{[]string{"sh", "-c", "trap '' TERM; " + loop}, true, 137},
		{[]string{"sh", "-c", "echo up; exec sleep 1000"}, true, 143},
		{[]string{"sh", "-c", loop}, true, 143},
	} {
		t.Run(fmt.Sprint(c.command, " on host PIDs: ", c.hostPID), func(t *testing.T) {
			t.Parallel()
			config := p.container(fmt.Sprintf("c%d", i), c.command...)
			if c.hostPID {
				config.Linux.SecurityContext.NamespaceOptions.Pid = runtimeapi.NamespaceMode_NODE
			}
			id := p.start(t, config)
			p.up(t, config.GetMetadata().GetName())
			// Even on a busy host, a container that handles TERM exits within 2 minutes.
			killed, grace := c.code == 137, 2*time.Minute
			if killed {
				grace = time.Second
			}
			begin := time.Now()
			if err := s.StopContainer(t.Context(), id, grace); err != nil {
				t.Fatal(err)
			}
			took := time.Since(begin)
			wantExit(t, s.status(t, id), c.code, map[bool]string{true: "Completed", false: "Error"}[c.code == 0])
			if killed != (took >= grace) {
				t.Errorf("stopping the container took %v, with a grace period of %v", took, grace)
			}
		})
	}
}

func (s *suite) testStopAndRemove(t *testing.T) {
	p := s.pod(t)
	id := p.sh(t, "app", "sleep 1000")
	for range 2 {
		if err := s.StopContainer(t.Context(), id, 0); err != nil {
			t.Errorf("StopContainer: %v", err)
		}
		wantExit(t, s.status(t, id), 137, "Error")
	}
	created := p.create(t, p.container("created", "true"))
	if err := s.StopContainer(t.Context(), created, 0); err != nil {
		t.Errorf("StopContainer of a created container: %v", err)
	}
	if state := runtimeapi.ContainerState_CONTAINER_CREATED; !s.cfg.Profile.StopsCreated {
		wantState(t, s.status(t, created), state)
	}
	for _, id := range []string{id, id, created, p.sh(t, "running", "sleep 1000")} {
		if err := s.RemoveContainer(t.Context(), id); err != nil {
			t.Errorf("RemoveContainer: %v", err)
		}
		_, err := s.ContainerStatus(t.Context(), id, false)
		wantCode(t, err, codes.NotFound)
	}
	if err := s.StopContainer(t.Context(), id, 0); err != nil {
		t.Errorf("StopContainer of a removed container: %v", err)
	}
	wantCode(t, s.StartContainer(t.Context(), id), codes.NotFound)
}

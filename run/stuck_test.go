package run

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podrun/podrun/cri/critest"
)

// TestDeleteOfAStuckTask: containerd cannot remove a container whose start was cut off by
// a kill, until its process is killed (faults.md, F11).
func TestDeleteOfAStuckTask(t *testing.T) {
	r := newRig(t)
	r.mustApply(one("Always"), OutcomeCreated)
	stuck := status.Error(codes.FailedPrecondition, `failed to remove container "c": failed to delete containerd container "c": cannot delete running task c: failed precondition`)
	r.rt.Fault("RemovePodSandbox", critest.Fault{When: critest.Before, Err: stuck, Times: 2})
	r.mustDelete()
}

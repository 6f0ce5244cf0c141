package observe

import (
	"context"
	"errors"

	"github.com/podrun/podrun/cri"
)

// SandboxPID reads the ID of the first process of a sandbox from the runtime's verbose status.
func SandboxPID(ctx context.Context, client *cri.Client, id string) (int, error) {
	info, err := client.PodSandboxInfo(ctx, id)
	if err != nil {
		return 0, err
	}
	pid := pidOf(info)
	if pid <= 0 {
		return 0, errors.New("the runtime does not report the process ID of the sandbox")
	}
	return pid, nil
}

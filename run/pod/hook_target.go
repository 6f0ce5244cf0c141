package pod

import (
	"context"

	"github.com/podrun/podrun/container/hook"
	"github.com/podrun/podrun/run/lifecycle"
)

// HookTarget returns the target of a container's hooks.
func (p *Pod) HookTarget(c lifecycle.Container) hook.Target {
	t := hook.Target{ContainerID: c.ID, Exec: p.exec}
	if sb := p.Observed.Sandbox(); sb != nil && len(sb.IPs) > 0 {
		t.PodIP = sb.IPs[0]
	}
	return t
}

func (p *Pod) exec(ctx context.Context, id string, command []string) (stdout, stderr []byte, code int32, err error) {
	return p.Node.Client.ExecOutput(ctx, id, command, 0)
}

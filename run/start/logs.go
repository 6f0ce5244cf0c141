package start

import (
	"os"
	"path/filepath"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/container/podlog"
	"github.com/podrun/podrun/internal/faultpoint"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/pod"
)

// logs links and removes the log files of a pod's containers.
type logs struct{ pod *pod.Pod }

// link creates the link by which log collectors find the container's log.
func (l logs) link(c lifecycle.Container, config *runtimeapi.ContainerConfig) error {
	faultpoint.At("log/link")
	layout, id := l.pod.Plan.Layout, l.pod.Plan.ID
	link := layout.LegacyLog(id, c.Name, c.ID)
	target := filepath.Join(layout.Logs(id), config.GetLogPath())
	err := os.Symlink(target, link)
	if os.IsNotExist(err) {
		if err = hostfile.MakeDirs(layout.ContainerLogsDir, 0o755); err == nil {
			err = os.Symlink(target, link)
		}
	}
	if os.IsExist(err) {
		return nil
	}
	return err
}

// remove removes the log of a removed container and the link to the log, as the kubelet does.
// Otherwise a container that crashes for months would fill the disk with logs.
func (l logs) remove(c lifecycle.Container) error {
	layout, id := l.pod.Plan.Layout, l.pod.Plan.ID
	if !strings.HasPrefix(c.LogPath, layout.Logs(id)+"/") {
		// The container has no log, or the runtime reports another path for it.
		return nil
	}
	err := os.Remove(layout.LegacyLog(id, c.Name, c.ID))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	return podlog.RemoveLog(c.LogPath)
}

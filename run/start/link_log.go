package start

import (
	"os"
	"path/filepath"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/internal/faultpoint"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/run/lifecycle"
)

// linkLog creates the link with which log collectors find the container's log.
func (w *Starter) linkLog(c lifecycle.Container, config *runtimeapi.ContainerConfig) error {
	faultpoint.At("log/link")
	link := w.pod.Plan.Layout.LegacyLog(w.pod.Plan.ID, c.Name, c.ID)
	target := filepath.Join(w.pod.Plan.Layout.Logs(w.pod.Plan.ID), config.GetLogPath())
	err := os.Symlink(target, link)
	if os.IsNotExist(err) {
		if err = hostfile.MakeDirs(w.pod.Plan.Layout.ContainerLogsDir, 0o755); err == nil {
			err = os.Symlink(target, link)
		}
	}
	if os.IsExist(err) {
		return nil
	}
	return err
}

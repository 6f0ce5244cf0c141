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
func (st *Starter) linkLog(c lifecycle.Container, config *runtimeapi.ContainerConfig) error {
	faultpoint.At("log/link")
	link := st.pod.Plan.Layout.LegacyLog(st.pod.Plan.ID, c.Name, c.ID)
	target := filepath.Join(st.pod.Plan.Layout.Logs(st.pod.Plan.ID), config.GetLogPath())
	err := os.Symlink(target, link)
	if os.IsNotExist(err) {
		if err = hostfile.MakeDirs(st.pod.Plan.Layout.ContainerLogsDir, 0o755); err == nil {
			err = os.Symlink(target, link)
		}
	}
	if os.IsExist(err) {
		return nil
	}
	return err
}

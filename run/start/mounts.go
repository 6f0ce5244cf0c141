package start

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/dns"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/safepath"
	"github.com/podrun/podrun/volume"
)

// writeHosts writes the /etc/hosts file that the pod's containers mount. The file must exist when a
// container is created. podrun writes it again just before it starts the container, because a
// container that was created before its turn may start much later.
func (c configs) writeHosts(ctx context.Context) error {
	plan := c.pod.Plan
	text := dns.EtcHosts(c.pod.Spec(), plan.Name, c.pod.Observed.Sandbox().IPs, plan.EtcHosts)
	err := withServiceNames(ctx, c.pod, text, func(text string) error {
		return volume.WriteHosts(ctx, plan.Layout, plan.ID.UID, []byte(text))
	})
	if err == nil {
		// A supervisor does not observe the pod again before its next decision.
		c.pod.Observed.HostsLost = false
	}
	return err
}

// makeMounted creates the directory of the container's logs, and checks all mounts
// of a container that is about to be created. An earlier podrun process may have created the sandbox,
// so makeMounted assumes nothing about what that process has created.
func (c configs) makeMounted(ctx context.Context, config *runtimeapi.ContainerConfig) error {
	layout, id := c.pod.Plan.Layout, c.pod.Plan.ID
	// The kubelet creates this directory for each container, too (generateContainerConfig in pkg/kubelet/kuberuntime).
	if err := hostfile.MakeDirs(filepath.Dir(filepath.Join(layout.Logs(id), config.GetLogPath())), 0o755); err != nil {
		return fmt.Errorf("create the directory of the logs: %w", err)
	}
	return checkMounts(ctx, layout, id.UID, config.GetMounts())
}

// checkMounts returns an error if a mount of a container refers to a file or directory that podrun
// creates, but that does not exist. The runtime would create an empty directory in its place. podrun
// creates everything below the pod's directory: volumes, subPaths, the hosts file and termination
// logs.
func checkMounts(ctx context.Context, layout identity.Layout, uid string, mounts []*runtimeapi.Mount) error {
	for _, m := range mounts {
		path := m.GetHostPath()
		if !strings.HasPrefix(path, string(layout.Pod(uid))+"/") {
			continue
		}
		info, err := safepath.Await(ctx, path, func() (fs.FileInfo, error) { return os.Lstat(path) })
		file := path == layout.Pod(uid).EtcHosts() || strings.HasPrefix(path, layout.Pod(uid).Containers()+"/")
		if err == nil && file && !info.Mode().IsRegular() {
			err = fmt.Errorf("%s is not a regular file", path)
		}
		if err != nil {
			return fmt.Errorf("the source of the mount %s: %w", m.GetContainerPath(), err)
		}
	}
	return nil
}

package crash

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// configured is the content of the ConfigMap of the pod.
const configured = "configured"

// comparedFiles is the number of mounted files and directories that the test has compared.
var comparedFiles atomic.Int64

// A mounted is a file or directory that is mounted into a container.
type mounted struct {
	path, kind, mode, content string
}

// commonMounts are the mounts of every container. The content of the hosts file depends on the pod.
var commonMounts = []mounted{
	{"/etc/hosts", "regular file", "644", ""},
	{"/dev/termination-log", "regular empty file", "666", ""},
	{"/etc/resolv.conf", "regular file", "644", ""},
	{"/etc/hostname", "regular file", "644", ""},
}

// appMounts are the mounts of the container app of manifest.
var appMounts = []mounted{
	{"/mem", "directory", "1777", ""},
	{"/sub", "directory", "777", ""},
	{"/config/key", "regular file", "440", configured},
	{"/key", "regular file", "440", configured},
}

// managedHosts is the beginning of the hosts file of a pod (kubelet: managedHostsFileContent).
const managedHosts = `# Kubernetes-managed hosts file.
127.0.0.1	localhost
::1	localhost ip6-localhost ip6-loopback
fe00::0	ip6-localnet
fe00::0	ip6-mcastprefix
fe00::1	ip6-allnodes
fe00::2	ip6-allrouters
`

// mountsAsDefined compares, from inside each container of a running pod, what is mounted with what
// the pod's manifest defines: kind, mode and content.
func (o *outside) mountsAsDefined(ctx context.Context, h *host, pod string) error {
	sandboxes, _, err := o.sandboxes(ctx, pod)
	if err != nil {
		return err
	}
	var address string
	for _, s := range sandboxes {
		if s.State == runtimeapi.PodSandboxState_SANDBOX_READY {
			st, err := o.runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: s.Id})
			if err != nil {
				return err
			}
			address = st.GetStatus().GetNetwork().GetIp()
		}
	}
	containers, err := o.containers(ctx, pod)
	if err != nil {
		return err
	}
	for _, c := range containers {
		if c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		want := slices.Clone(commonMounts)
		want[0].content = managedHosts + address + "\t" + pod + "\n"
		if h.scaled == 0 {
			want[0].content += "\n# Entries added by HostAliases.\n192.0.2.1\talias\n"
		}
		if h.scaled == 0 && c.Metadata.Name == "app" {
			want = append(want, appMounts...)
		}
		if err := o.compareMounts(ctx, c, want, h.service); err != nil {
			return fmt.Errorf("container %s: %w", c.Metadata.Name, err)
		}
	}
	return nil
}

// compareMounts compares the mounts of one container. If named is true, the names of Services follow
// in the hosts file.
func (o *outside) compareMounts(ctx context.Context, c *runtimeapi.Container, want []mounted, named bool) error {
	for _, m := range want {
		r, err := o.runtime.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: c.Id, Timeout: 60, Cmd: []string{"sh", "-c",
			`stat -L -c '%F,%a' "$0" && if [ -f "$0" ]; then cat "$0"; fi`, m.path}})
		if err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
		status, content, _ := strings.Cut(string(r.Stdout), "\n")
		if m.path == "/etc/hosts" && named && strings.HasPrefix(content, m.content) {
			content = m.content
		}
		if status != m.kind+","+m.mode || m.content != "" && content != m.content {
			return fmt.Errorf("%s is %q with the content %q, want %s, %s, %q; %s", m.path, status, content, m.kind, m.mode, m.content, r.Stderr)
		}
		comparedFiles.Add(1)
	}
	return nil
}

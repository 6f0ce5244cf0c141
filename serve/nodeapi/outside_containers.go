package nodeapi

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// outsideContainers returns nil if the process that connected to a unix socket is certainly not in
// a container. A container that reaches the socket through a volume, even a read-only one, must not
// gain access to other containers.
//
// The kernel recorded the process when it connected. If the process has exited since then, podrun
// cannot determine whether it was in a container, and it may have passed the connection to another
// process.
func outsideContainers(c *net.UnixConn) error {
	cred, err := credentials(c)
	if err != nil {
		return fmt.Errorf("cannot identify the client: %w", err)
	}
	if cred.Pid == 0 {
		return errors.New("the client is in another PID namespace")
	}
	pidfd, err := pidfdOf(c, int(cred.Pid))
	if err != nil {
		return fmt.Errorf("cannot identify the client, process %d: %w", cred.Pid, err)
	}
	defer unix.Close(pidfd)
	groups, err := cgroupsOf(fmt.Sprint(cred.Pid))
	if err == nil {
		// While the process exists, no other process can have its PID.
		err = unix.PidfdSendSignal(pidfd, 0, nil, 0)
	}
	if err != nil {
		return fmt.Errorf("cannot identify the client, process %d: %w", cred.Pid, err)
	}
	own, err := cgroupsOf("self")
	if err != nil {
		return err
	}
	if group := containerGroup(groups, own); group != "" {
		return fmt.Errorf("process %d is in the cgroup of a container, %s", cred.Pid, group)
	}
	return nil
}

// pidfdOf returns a descriptor of the process that connected. Linux 6.5 and later have
// SO_PEERPIDFD. On older versions, the descriptor refers to the process that has the PID at the
// time of this call. To exploit this, a container would have to terminate the connecting process,
// and a process of the host would have to get the same PID before podrun accepts the connection.
func pidfdOf(c *net.UnixConn, pid int) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, err
	}
	pidfd := -1
	if controlled := raw.Control(func(fd uintptr) {
		pidfd, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	}); controlled != nil {
		return -1, controlled
	}
	if errors.Is(err, unix.ENOPROTOOPT) {
		pidfd, err = unix.PidfdOpen(pid, 0)
	}
	return pidfd, err
}

// maxCgroupFile is the maximum number of bytes that podrun reads of /proc/PID/cgroup. The file has
// one line per cgroup hierarchy.
const maxCgroupFile = 1 << 20

// cgroupsOf reads the cgroups of a process, by hierarchy (cgroups(7)).
func cgroupsOf(pid string) (map[string]string, error) {
	f, err := os.Open("/proc/" + pid + "/cgroup")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := map[string]string{}
	lines := bufio.NewScanner(io.LimitReader(f, maxCgroupFile))
	for lines.Scan() {
		if id, rest, ok := strings.Cut(lines.Text(), ":"); ok {
			_, group, _ := strings.Cut(rest, ":")
			out[id] = group
		}
	}
	return out, lines.Err()
}

// ofContainer matches the cgroups of containers: those below the pod cgroups of the kubelet or
// podrun, and those whose names contain a container ID, as the names do with all runtimes. The
// second pattern is required if pods have no cgroups (cgroupsPerQOS: false).
var ofContainer = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`kubepods.*/|[0-9a-f]{64}`) })

// containerGroup returns one of a process's cgroups that belongs to a container; or "" if none
// does. The argument own contains podrun's cgroups: if podrun itself runs in a container, that
// container does not count.
func containerGroup(groups, own map[string]string) string {
	for id, group := range groups {
		below := group
		if mine := strings.TrimSuffix(own[id], "/"); group == mine || strings.HasPrefix(group, mine+"/") {
			below = group[len(mine):]
		}
		if ofContainer().MatchString(below) {
			return group
		}
	}
	return ""
}

package embedded

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// MissingPrivileges returns what this process is not permitted to do although pods require it, such as "mount file
// systems (operation not permitted)". It returns "" if nothing is missing. It tries each operation, because
// capabilities alone do not show what a seccomp profile forbids, and changes nothing on the host. It returns "" for a
// user other than root.
func MissingPrivileges() string {
	if os.Geteuid() != 0 {
		// The errors of other operations name the user.
		return ""
	}
	var missing []string
	for _, attempt := range []struct {
		what string
		try  func() error
	}{{"mount file systems", tryMount}, {"create network namespaces", tryNetwork}} {
		if err := attempt.try(); errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
			missing = append(missing, fmt.Sprintf("%s (%v)", attempt.what, err))
		}
	}
	return strings.Join(missing, " or ")
}

// PrivilegesHint is the fix for missing privileges.
const PrivilegesHint = "in a container, start it with --privileged ('docker run --privileged', or 'privileged = true' of the GitLab runner), or run podrun on the host or in a VM"

// tryMount creates a tmpfs without attaching it to a directory. The error is ENOSYS before Linux 5.2.
func tryMount() error {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return err
	}
	mount, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Close(mount)
}

// tryNetwork creates a network namespace and activates its loopback interface.
func tryNetwork() error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		before, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			result <- err
			return
		}
		defer unix.Close(before)
		err = setUpNetwork()
		// The main thread must not keep the namespace, because /proc/self shows it. A thread that cannot leave it ends
		// with the goroutine, because it remains locked.
		if unix.Setns(before, unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
		result <- err
	}()
	return <-result
}

func setUpNetwork() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, lo)
}

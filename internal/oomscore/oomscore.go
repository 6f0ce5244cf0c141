// Package oomscore determines which processes may lower OOM scores.
package oomscore

import (
	"strconv"
	"strings"
)

// initialUserNS is the target of /proc/PID/ns/user of a process in the initial user namespace
// (PROC_USER_INIT_INO of linux/proc_ns.h).
const initialUserNS = "user:[4026531837]"

// capSysResource is the bit of CAP_SYS_RESOURCE.
const capSysResource = 24

// MayLower reports whether a process may lower OOM scores. The kernel requires CAP_SYS_RESOURCE in the
// initial user namespace. Root in a container with a user namespace has all capabilities in its own
// namespace, so CapEff alone is not sufficient. The arguments are the content of /proc/PID/status and
// the target of the link /proc/PID/ns/user, or "" if the kernel has no user namespaces and therefore no
// such link. The result is nil if status does not state the capabilities.
func MayLower(status, userNS string) *bool {
	for line := range strings.Lines(status) {
		hex, ok := strings.CutPrefix(line, "CapEff:")
		if !ok {
			continue
		}
		set, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
		if err != nil {
			return nil
		}
		may := set&(1<<capSysResource) != 0 && (userNS == "" || userNS == initialUserNS)
		return &may
	}
	return nil
}

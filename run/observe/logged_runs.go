package observe

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/lifecycle"
)

// readLoggedRuns reads Observed.LoggedRuns from the names of the logs, as the kubelet does
// (calcRestartCountByLogDir in pkg/kubelet/kuberuntime). Logs that cannot be listed count as missing.
func readLoggedRuns(l identity.Layout, uid string, obs *lifecycle.Observed) map[string]uint32 {
	return loggedRuns(logDir(l, uid, obs.Sandbox()), obs)
}

// NewPod returns the observation of a pod that the runtime does not have. An earlier pod of the same UID may have
// left logs (`delete --keep-logs`): the UID of a pod follows from its manifest.
func NewPod(l identity.Layout, id identity.Pod) *lifecycle.Observed {
	obs := &lifecycle.Observed{}
	obs.LoggedRuns = loggedRuns(l.Logs(id), obs)
	return obs
}

func loggedRuns(dir string, obs *lifecycle.Observed) map[string]uint32 {
	containers, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out map[string]uint32
	for _, c := range containers {
		if !c.IsDir() || obs.Newest(c.Name()) != nil {
			continue
		}
		logs, _ := os.ReadDir(filepath.Join(dir, c.Name()))
		for _, log := range logs {
			if n := runsOf(log.Name()); !log.IsDir() && n > out[c.Name()] {
				if out == nil {
					out = map[string]uint32{}
				}
				out[c.Name()] = n
			}
		}
	}
	return out
}

// logDir returns the directory of a pod's logs, or "" if there is none. If sandbox is nil, logDir finds
// the directory by the UID, because the pod's name is unknown.
func logDir(l identity.Layout, uid string, sandbox *lifecycle.Sandbox) string {
	if sandbox != nil {
		return l.Logs(sandbox.Pod)
	}
	entries, err := os.ReadDir(l.PodLogsDir)
	if err != nil {
		return ""
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), "_"+uid) {
			return filepath.Join(l.PodLogsDir, e.Name())
		}
	}
	return ""
}

// runsOf returns the number of runs of a container up to the run that wrote the given log: 3 for 2.log
// and for the rotated log 2.log.20260101-120000. It returns 0 for other files.
func runsOf(name string) uint32 {
	number, rest, _ := strings.Cut(name, ".")
	n, err := strconv.ParseUint(number, 10, 30) // n+1 is an int32 in the pod's status
	if err != nil || rest != "log" && !strings.HasPrefix(rest, "log.") {
		return 0
	}
	return uint32(n) + 1
}

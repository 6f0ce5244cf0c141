package rootless

import (
	"encoding/json"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
)

// SchemaVersion is the version of the record.
const SchemaVersion = 1

// Record is the file RUN/rootless.json, which podrun-rootless writes when it is ready.
type Record struct {
	SchemaVersion  int      `json:"schemaVersion"`
	PID            int      `json:"pid"`
	StartTime      uint64   `json:"startTime"` // field 22 of /proc/PID/stat, in clock ticks
	BootID         string   `json:"bootID"`
	UserNamespace  uint64   `json:"userNamespace"` // inode numbers of /proc/PID/ns
	MountNamespace uint64   `json:"mountNamespace"`
	Program        string   `json:"program"`
	Enter          string   `json:"enter"`
	Netns          string   `json:"netns"`
	Ports          string   `json:"ports"`
	Resolvers      []string `json:"resolvers"`
	UIDMap         string   `json:"uidMap"`
	GIDMap         string   `json:"gidMap"`
	SingleID       bool     `json:"singleID"`
	SingleIDReason string   `json:"singleIDReason"`
	// Cgroup is the cgroup, below the mount point, in which systemd lets podrun create those of pods; "" if there is
	// none, for the reason NoCgroups.
	Cgroup    string `json:"cgroup"`
	NoCgroups string `json:"noCgroups"`
	// AllowMetadata: pods can connect to the metadata service of a cloud.
	AllowMetadata bool `json:"allowMetadata"`
}

// maxRecord limits the size of a record, in bytes.
const maxRecord = 64 << 10

// RecordFile returns the path of the record of a run directory.
func RecordFile(runDir string) string { return path.Join(runDir, "rootless.json") }

// ReadRecord returns the record of the run directory of this process's user; nil if there is none, or if another
// user could have written it.
func ReadRecord() *Record {
	if !User() {
		return nil
	}
	return readRecord(RunDir(), os.Geteuid())
}

// readRecord returns the record of a run directory that belongs to a user.
func readRecord(runDir string, owner int) *Record {
	if !isPrivate(runDir, owner) {
		return nil
	}
	f, err := os.OpenFile(RecordFile(runDir), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRecord))
	r := &Record{}
	if err != nil || json.Unmarshal(data, r) != nil || r.SchemaVersion != SchemaVersion || r.PID <= 0 {
		return nil
	}
	return r
}

// Alive reports whether the recorded podrun-rootless runs. A zombie counts as exited.
func (r *Record) Alive() bool {
	return r != nil && Runs(r.PID, r.StartTime)
}

// Runs reports whether a process with a start time runs. The boot ID is not necessary: after a reboot, the start
// time differs, or the run directory is gone.
func Runs(pid int, startTime uint64) bool {
	state, started, ok := Stat(pid)
	return ok && started == startTime && state != "Z" && state != "X"
}

// Stat returns the state and the start time of a process (proc_pid_stat(5)).
func Stat(pid int) (state string, startTime uint64, ok bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", 0, false
	}
	// The name is in parentheses, and may contain any characters.
	f := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(f) < 20 {
		return "", 0, false
	}
	startTime, err = strconv.ParseUint(f[19], 10, 64)
	return f[0], startTime, err == nil
}

// EnterArgs returns the program and the arguments with which execve(2) makes this process enter the namespaces of
// a process, and execute podrun again.
func EnterArgs(enter string, pid int, startTime uint64, program string, args []string) []string {
	return append([]string{enter, strconv.Itoa(pid), strconv.FormatUint(startTime, 10), "--", program}, args...)
}

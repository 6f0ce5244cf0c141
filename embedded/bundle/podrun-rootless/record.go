package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// schemaVersion is the version of the record's format.
const schemaVersion = 1

// record is RUN/rootless.json. Other programs find the namespaces with it.
type record struct {
	SchemaVersion  int      `json:"schemaVersion"`
	PID            int      `json:"pid"`
	StartTime      uint64   `json:"startTime"` // field 22 of /proc/PID/stat
	BootID         string   `json:"bootID"`
	UserNamespace  uint64   `json:"userNamespace"`
	MountNamespace uint64   `json:"mountNamespace"`
	Program        string   `json:"program"`
	Enter          string   `json:"enter"`
	Netns          string   `json:"netns"`
	Ports          string   `json:"ports"`
	Resolvers      []string `json:"resolvers"`
	UIDMap         string   `json:"uidMap"`
	GIDMap         string   `json:"gidMap"`
	SingleID       bool     `json:"singleID"`
	SingleIDReason string   `json:"singleIDReason,omitempty"`
	Cgroup         string   `json:"cgroup,omitempty"` // see options
	NoCgroups      string   `json:"noCgroups,omitempty"`
	AllowMetadata  bool     `json:"allowMetadata,omitempty"`
}

func recordPath(runDir string) string { return filepath.Join(runDir, "rootless.json") }

func readRecord(runDir string) (*record, error) {
	data, err := os.ReadFile(recordPath(runDir))
	if err != nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, err
	}
	return &r, nil
}

// newRecord describes this process.
func newRecord(o options, resolvers []string) (*record, error) {
	r := &record{
		SchemaVersion: schemaVersion, PID: os.Getpid(), Enter: filepath.Join(o.bin, "podrun-enter"),
		Netns: netnsPath(o.runDir), Ports: socketPath(o.runDir), Resolvers: resolvers,
		Cgroup: o.cgroup, NoCgroups: o.noCgroups, AllowMetadata: o.allowMetadata,
	}
	var errs [7]error
	r.StartTime, errs[0] = startTime(r.PID)
	r.BootID, errs[1] = bootID()
	r.UserNamespace, errs[2] = namespaceOf("/proc/self/ns/user")
	r.MountNamespace, errs[3] = namespaceOf("/proc/self/ns/mnt")
	r.UIDMap, errs[4] = readMap("/proc/self/uid_map")
	r.GIDMap, errs[5] = readMap("/proc/self/gid_map")
	r.Program, errs[6] = os.Executable()
	r.SingleID = strings.Count(r.UIDMap, "\n") == 1 && strings.HasSuffix(r.UIDMap, " 1\n")
	if r.SingleID {
		r.SingleIDReason = o.singleIDReason
		if old, err := readRecord(o.runDir); r.SingleIDReason == "" && err == nil { // inside
			r.SingleIDReason = old.SingleIDReason
		}
	}
	return r, errors.Join(errs[:]...)
}

// write replaces the record.
func (r *record) write(runDir string) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return replaceFile(recordPath(runDir), append(data, '\n'))
}

// replaceFile writes a file that only the user can read. It does not write it to the disk: after a
// crash of the host, no process uses it.
func replaceFile(path string, data []byte) error {
	temporary := path + ".new"
	if err := os.WriteFile(temporary, data, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// alive reports whether the process of the record exists.
func (r *record) alive() bool {
	boot, err := bootID()
	if err != nil || boot != r.BootID || r.SchemaVersion != schemaVersion {
		return false
	}
	start, err := startTime(r.PID)
	return err == nil && start == r.StartTime
}

// message returns the line for podrun.
func (r *record) message() message {
	m := message{Ready: true, SingleID: r.SingleID}
	if r.SingleID {
		m.Reason = "NoSubordinateIDs"
		m.Hint = r.SingleIDReason + ": containers have only the user and group ID 0; install newuidmap and newgidmap, and add a range of 65536 IDs for the user to /etc/subuid and /etc/subgid"
	}
	return m
}

// startTime returns the start time of a process in clock ticks since the boot. It returns an error for
// a zombie.
func startTime(pid int) (uint64, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	// The name of the program may contain spaces and parentheses.
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return 0, fmt.Errorf("process %d has ended", pid)
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

func bootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data)), err
}

// namespaceOf returns the number of a namespace.
func namespaceOf(path string) (uint64, error) {
	link, err := os.Readlink(path)
	if err != nil {
		return 0, err
	}
	_, number, _ := strings.Cut(link, ":[")
	return strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 64)
}

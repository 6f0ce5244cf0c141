package cgroup

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// processes returns the processes in a cgroup and its descendants. It returns none if the cgroup
// does not exist.
func processes(dir string) ([]int, error) {
	var out []int
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if noGroup(err) {
				return nil
			}
			return err
		}
		if !d.IsDir() {
			return nil
		}
		pids, err := procs(path)
		out = append(out, pids...)
		return err
	})
	return out, err
}

// procs reads cgroup.procs of one group. A process outside podrun's PID namespace is listed as
// 0.
func procs(dir string) ([]int, error) {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		if noGroup(err) {
			return nil, nil
		}
		return nil, err
	}
	var out []int
	for field := range strings.FieldsSeq(string(data)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, err
		}
		out = append(out, pid)
	}
	return out, nil
}

// ReadExists reports whether the pod's cgroup exists in any hierarchy. It returns false if
// the plan has no groups.
func ReadExists(p Plan) bool {
	for _, g := range p.Pods {
		if slices.ContainsFunc(p.hierarchies().dirs(g), exists) {
			return true
		}
	}
	return false
}

package cgroup

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReadUsage(t *testing.T) {
	for name, tc := range map[string]struct {
		version int
		// the directory of each controller
		mounts map[string]string
		files  map[string]string
		want   Usage
		ok     bool
	}{
		"v1": {1, map[string]string{"memory": "memory", "pids": "pids"}, map[string]string{
			"memory/pod1/memory.usage_in_bytes": "5000\n", "memory/pod1/memory.stat": "inactive_file 1\ntotal_inactive_file 2000\n", "pids/pod1/pids.current": "7\n"},
			Usage{3000, 7}, true},
		"v1 without pids": {1, map[string]string{"memory": "memory"}, map[string]string{
			"memory/pod1/memory.usage_in_bytes": "5000\n", "memory/pod1/memory.stat": "total_inactive_file 9000\n"}, Usage{0, 0}, true},
		"v2":           {2, map[string]string{"": "unified"}, map[string]string{"unified/pod1/memory.current": "5000\n", "unified/pod1/memory.stat": "inactive_file 2000\n", "unified/pod1/pids.current": "7\n"}, Usage{3000, 7}, true},
		"no group":     {2, map[string]string{"": "unified"}, nil, Usage{}, false},
		"no memory":    {1, map[string]string{"cpu": "cpu"}, map[string]string{"cpu/pod1/cpu.shares": "2\n"}, Usage{}, false},
		"not a number": {2, map[string]string{"": "unified"}, map[string]string{"unified/pod1/memory.current": "max\n"}, Usage{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range tc.files {
				path := filepath.Join(dir, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			p := Plan{Version: tc.version, Mounts: map[string]string{}, Pods: []Group{{Path: "/none"}, {Path: "/pod1"}}}
			for controller, mount := range tc.mounts {
				p.Mounts[controller] = filepath.Join(dir, mount)
			}
			if got, ok := ReadUsage(p); got != tc.want || ok != tc.ok {
				t.Errorf("%+v, %t; want %+v, %t", got, ok, tc.want, tc.ok)
			}
		})
	}
}

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// counters are the kernel's counters of the whole system since its boot.
type counters struct {
	faults int64 // page faults: pgfault of /proc/vmstat
	forks  int64 // new processes and threads: processes of /proc/stat
}

func readCounters() (c counters, err error) {
	if c.faults, err = readCounter("/proc/vmstat", "pgfault"); err != nil {
		return c, err
	}
	c.forks, err = readCounter("/proc/stat", "processes")
	return c, err
}

func readCounter(path, name string) (int64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no %s", path, name)
}

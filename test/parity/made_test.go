package parity

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"
)

// cgroup reads the settings of the pod's cgroup.
func (r *rig) cgroup() map[string]string {
	parent := r.rt.Sandboxes()[0].Config.GetLinux().GetCgroupParent()
	out := map[string]string{}
	for controller, names := range map[string][]string{
		"cpu":     {"cpu.shares", "cpu.cfs_period_us", "cpu.cfs_quota_us"},
		"memory":  {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.soft_limit_in_bytes", "memory.swappiness", "memory.oom_control"},
		"pids":    {"pids.max"},
		"hugetlb": {"hugetlb.2MB.limit_in_bytes", "hugetlb.1GB.limit_in_bytes"},
	} {
		for _, name := range names {
			if raw, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", controller, parent, name)); err == nil {
				out[name] = strings.TrimSpace(string(raw))
			}
		}
	}
	return out
}

var (
	randomName = regexp.MustCompile(`(containers/[^/]+)/[0-9a-f]{8}$`)
	hostID     = regexp.MustCompile(`"hostId":\d+`) // host ID of a user namespace; any free range is correct
	atomicDir  = regexp.MustCompile(`\.\.[0-9]{4}_[0-9_.]+`)
)

// files lists the files below the pod's directory.
func (r *rig) files() map[string]podFile {
	dir := string(r.settings.Layout().Pod(r.rt.Sandboxes()[0].Config.GetMetadata().GetUid()))
	mounts := mountsBelow(r.t, dir)
	out := map[string]podFile{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		f := podFile{Mode: info.Mode().String(), Own: fmt.Sprintf("%d:%d", st.Uid, st.Gid), FS: mounts[path]}
		switch {
		case info.Mode()&os.ModeSymlink != 0:
			link, err := os.Readlink(path)
			if err != nil {
				return err
			}
			f.Link = atomicDir.ReplaceAllString(link, "..<TIME>")
		case info.Mode().IsRegular() && info.Size() <= 1<<14:
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if utf8.Valid(raw) {
				f.Text = hostID.ReplaceAllString(string(raw), `"hostId":<HOSTID>`)
			}
		}
		rel := strings.TrimPrefix(strings.TrimPrefix(path, dir), "/")
		if rel == "" {
			rel = "."
		}
		out[randomName.ReplaceAllString(atomicDir.ReplaceAllString(rel, "..<TIME>"), "$1/<RANDOM>")] = f
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// mountsBelow maps mount points below dir to their type and options.
func mountsBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		before, after, ok := strings.Cut(line, " - ")
		fields, tail := strings.Fields(before), strings.Fields(after)
		if ok && len(fields) >= 6 && len(tail) >= 3 && strings.HasPrefix(fields[4], dir) {
			out[fields[4]] = fmt.Sprintf("%s %s %s", tail[0], fields[5], tail[2])
		}
	}
	return out
}

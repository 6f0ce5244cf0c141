package script

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/test/patience"
)

// checkLeaks fails a script that leaves objects of its pods behind. It removes these objects, so
// that they do not affect the next run.
func (s *script) checkLeaks(t testscript.T) {
	s.over.Store(true)
	if s.hangs() {
		s.logHang(t)
	}
	for _, b := range s.background {
		b.kill()
	}
	if s.session != nil {
		if err := s.session.close(); err != nil {
			t.Log(fmt.Sprintf("the session of podrun: %v", err))
			t.FailNow()
		}
	}
	ctx, cancel := patience.Context(context.Background(), patience.OnFake)
	defer cancel()
	sandboxes, left := s.leftOnRuntime(ctx)
	left = append(left, s.leftInDirs()...)
	mounts, err := s.mounts()
	left = append(left, note(err)...)
	for _, m := range mounts {
		left = append(left, "mount "+m)
	}
	groups := s.groups()
	for _, g := range groups {
		left = append(left, "cgroup "+g)
	}
	s.clean(ctx, sandboxes, mounts, groups)
	s.client.Close()
	failed, ok := t.(interface{ Failed() bool })
	if len(left) == 0 && !s.hangs() || ok && failed.Failed() {
		// a failed script may have leftovers
		return
	}
	t.Log("left behind:\n\t" + strings.Join(left, "\n\t"))
	t.FailNow()
}

func note(err error) []string {
	if err == nil {
		return nil
	}
	return []string{err.Error()}
}

// leftOnRuntime lists the remaining sandboxes of the script's namespaces and root directory. It
// also returns descriptions of all leftovers, including containers.
func (s *script) leftOnRuntime(ctx context.Context) (sandboxes, left []string) {
	all, err := s.client.ListPodSandbox(ctx, nil)
	if err != nil {
		return nil, note(err)
	}
	mine := map[string]bool{}
	for _, sb := range all {
		ns := sb.GetMetadata().GetNamespace()
		_, err := os.Stat(s.path("root/pods/" + sb.GetMetadata().GetUid()))
		if ns == s.name || ns == s.name+"-other" || err == nil {
			mine[sb.GetId()] = true
			sandboxes = append(sandboxes, sb.GetId())
			left = append(left, fmt.Sprintf("sandbox of pod %s/%s", ns, sb.GetMetadata().GetName()))
		}
	}
	containers, err := s.client.ListContainers(ctx, nil)
	left = append(left, note(err)...)
	for _, c := range containers {
		if mine[c.GetPodSandboxId()] {
			left = append(left, "container "+c.GetMetadata().GetName())
		}
	}
	if s.fake != nil {
		left = append(left, s.fake.Leaked()...)
	}
	return sandboxes, left
}

// leftInDirs lists directories and logs of pods.
func (s *script) leftInDirs() []string {
	var left []string
	for _, dir := range []string{"root/pods", "logs/pods", "logs/containers"} {
		entries, err := os.ReadDir(s.path(dir))
		if err != nil && !os.IsNotExist(err) {
			left = append(left, err.Error())
		}
		for _, e := range entries {
			left = append(left, filepath.Join(dir, e.Name()))
		}
	}
	if _, err := os.Lstat(s.secrets()); err == nil {
		left = append(left, s.secrets())
	}
	return left
}

// secrets returns the directory in which --secrets=memory keeps the Secrets of the
// script's pods.
func (s *script) secrets() string { return string(identity.Layout{RootDir: s.path("root")}.Secrets()) }

// mounts lists the mount points below the script's directory and below the directory of its
// Secrets, in reverse order.
func (s *script) mounts() ([]string, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var found []string
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 4 && (strings.HasPrefix(f[4], s.work+"/") || f[4] == s.secrets()) {
			found = append([]string{f[4]}, found...)
		}
	}
	return found, nil
}

// groups lists the script's cgroup root and the cgroups below it, the deepest first. With the
// systemd driver, /a/b is the slice a-b below the slice a.
func (s *script) groups() []string {
	outer, inner := filepath.Split(s.cgroupRoot)
	outer = filepath.Clean(outer)
	slice := filepath.Join(outer+".slice", strings.TrimPrefix(outer, "/")+"-"+inner+".slice")
	var roots, found []string
	for _, name := range []string{s.cgroupRoot, slice} {
		inAll, err := filepath.Glob("/sys/fs/cgroup/*" + name)
		found = append(found, note(err)...)
		roots = append(append(roots, inAll...), "/sys/fs/cgroup"+name)
	}
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				found = append(found, path)
			}
			// another process has removed the directory
			return nil
		})
		found = append(found, note(err)...)
	}
	sort.Sort(sort.Reverse(sort.StringSlice(found)))
	return found
}

// clean removes leftovers. It ignores errors, because the leftovers have already been reported.
func (s *script) clean(ctx context.Context, sandboxes, mounts, groups []string) {
	for _, id := range sandboxes {
		_ = s.client.StopPodSandbox(ctx, id)
		_ = s.client.RemovePodSandbox(ctx, id)
	}
	for _, m := range mounts {
		_ = unix.Unmount(m, unix.MNT_DETACH)
	}
	_ = os.Remove(s.secrets())
	for _, g := range groups {
		_ = os.Remove(g)
	}
}

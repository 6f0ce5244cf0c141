package critest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// containerFiles is the file system of a container. If the source of a mount exists, paths below
// the mount are files of the host. Therefore, containers can share volumes and read their content.
// All other files are in memory. The key of a file below a mount is its host path; other files are
// stored separately for each container.
type containerFiles struct {
	rt     *Runtime
	id     string
	mounts []*runtimeapi.Mount // ordered by depth, the deepest first
	frozen bool                // whether the root file system is read-only
	// the files that the runtime itself creates
	own map[string]string
}

var (
	errNoFile   = errors.New("No such file or directory")
	errReadOnly = errors.New("Read-only file system")
	errIsDir    = errors.New("Is a directory")
)

// rootDirs are directories that exist in every image.
var rootDirs = []string{"/", "/bin", "/dev", "/etc", "/home", "/proc", "/root", "/run", "/sys", "/tmp", "/usr", "/var", "/dev/shm", "/var/log", "/var/run"}

func (rt *Runtime) filesOf(c *container) *containerFiles {
	f := &containerFiles{rt: rt, id: c.id, frozen: c.config.GetLinux().GetSecurityContext().GetReadonlyRootfs()}
	f.mounts = slices.Clone(c.config.GetMounts())
	slices.SortStableFunc(f.mounts, func(a, b *runtimeapi.Mount) int {
		return len(b.GetContainerPath()) - len(a.GetContainerPath())
	})
	f.own = map[string]string{
		"/etc/hostname":    c.sandbox.hostname() + "\n",
		"/etc/hosts":       hostFile("/etc/hosts"),
		"/etc/resolv.conf": resolvConf(c.sandbox.config.GetDnsConfig()),
	}
	return f
}

// resolvConf returns the content of resolv.conf in containerd's format. If the config has no DNS
// settings, it returns the content of the host's file.
func resolvConf(d *runtimeapi.DNSConfig) string {
	if d == nil {
		return hostFile("/etc/resolv.conf")
	}
	var b strings.Builder
	if len(d.GetSearches()) > 0 {
		fmt.Fprintf(&b, "search %s\n", strings.Join(d.GetSearches(), " "))
	}
	for _, s := range d.GetServers() {
		fmt.Fprintf(&b, "nameserver %s\n", s)
	}
	if len(d.GetOptions()) > 0 {
		fmt.Fprintf(&b, "options %s\n", strings.Join(d.GetOptions(), " "))
	}
	return b.String()
}

// hostFile reads a file that the runtime copies from the host.
func hostFile(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(data)
}

// place is the location of a file.
type place struct {
	// the path on the host, or the key of a file in memory
	path     string
	real     bool
	readonly bool
	top      bool // whether the path is the mount point itself
}

func (f *containerFiles) place(p string) place {
	for _, m := range f.mounts {
		at := path.Clean(m.GetContainerPath())
		if p != at && !strings.HasPrefix(p, strings.TrimSuffix(at, "/")+"/") {
			continue
		}
		host := filepath.Join(m.GetHostPath(), strings.TrimPrefix(p, at))
		_, err := os.Stat(m.GetHostPath())
		return place{path: host, real: m.GetHostPath() != "" && err == nil, readonly: m.GetReadonly(), top: p == at}
	}
	return place{path: f.id + ":" + p, readonly: f.frozen}
}

// Read implements ash.Files.
func (f *containerFiles) Read(p string) ([]byte, error) {
	at := f.place(p)
	if at.real {
		data, err := os.ReadFile(at.path)
		return data, plain(err)
	}
	f.rt.mu.Lock()
	defer f.rt.mu.Unlock()
	if data, ok := f.rt.files[at.path]; ok {
		return slices.Clone(data), nil
	}
	if text, ok := f.own[p]; ok {
		return []byte(text), nil
	}
	if f.kind(p, at) == 'd' {
		return nil, errIsDir
	}
	return nil, errNoFile
}

// Write implements ash.Files.
func (f *containerFiles) Write(p string, data []byte, appending bool) error {
	at := f.place(p)
	if at.readonly {
		return errReadOnly
	}
	if at.real {
		flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
		if appending {
			flags = os.O_WRONLY | os.O_CREATE | os.O_APPEND
		}
		file, err := os.OpenFile(at.path, flags, 0o644)
		if err != nil {
			return plain(err)
		}
		_, err = file.Write(data)
		return plain(errors.Join(err, file.Close()))
	}
	if f.Kind(path.Dir(p)) != 'd' {
		return errNoFile
	}
	f.rt.mu.Lock()
	defer f.rt.mu.Unlock()
	if f.kind(p, at) == 'd' {
		return errIsDir
	}
	if !appending {
		f.rt.files[at.path] = nil
	}
	f.rt.files[at.path] = append(f.rt.files[at.path], data...)
	return nil
}

// Kind implements ash.Files.
func (f *containerFiles) Kind(p string) byte {
	at := f.place(p)
	if at.real {
		info, err := os.Stat(at.path)
		switch {
		case err != nil:
			return 0
		case info.IsDir():
			return 'd'
		}
		return 'f'
	}
	f.rt.mu.Lock()
	defer f.rt.mu.Unlock()
	return f.kind(p, at)
}

// kind returns the kind of a file in memory. A path is a directory in two cases: if a key equals
// the path with a slash at its end, or if a mount point is the path or below it. The caller must
// hold rt.mu.
func (f *containerFiles) kind(p string, at place) byte {
	if _, ok := f.rt.files[at.path]; ok {
		return 'f'
	}
	if _, ok := f.own[p]; ok {
		return 'f'
	}
	if _, ok := f.rt.files[at.path+"/"]; ok || at.top || slices.Contains(rootDirs, p) {
		return 'd'
	}
	for _, m := range f.mounts {
		if strings.HasPrefix(m.GetContainerPath(), p+"/") {
			return 'd'
		}
	}
	return 0
}

// List implements ash.Files.
func (f *containerFiles) List(p string) ([]string, error) {
	at := f.place(p)
	var names []string
	if at.real {
		entries, err := os.ReadDir(at.path)
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), ".") {
				names = append(names, e.Name())
			}
		}
		return names, plain(err)
	}
	f.rt.mu.Lock()
	defer f.rt.mu.Unlock()
	for _, key := range sortedKeys(f.rt.files) {
		rest, below := strings.CutPrefix(key, strings.TrimSuffix(at.path, "/")+"/")
		name, _, _ := strings.Cut(rest, "/")
		if below && name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// MakeDir implements ash.Files.
func (f *containerFiles) MakeDir(p string) error {
	at := f.place(p)
	if f.Kind(path.Dir(p)) != 'd' {
		return errNoFile
	}
	if at.readonly {
		return errReadOnly
	}
	if at.real {
		return plain(os.Mkdir(at.path, 0o755))
	}
	f.rt.mu.Lock()
	defer f.rt.mu.Unlock()
	f.rt.files[at.path+"/"] = nil
	return nil
}

// plain returns an error with the text that a program in the container would print, which does
// not contain the host path.
func plain(err error) error {
	var pe *fs.PathError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return errNoFile
	case errors.As(err, &pe):
		return pe.Err
	}
	return err
}

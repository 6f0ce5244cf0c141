package embedded

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podrun/podrun/internal/hostfile"
)

// Handler is a runtime handler of containerd in addition to runc, which RuntimeClasses can
// name. Its program is installed on the host.
type Handler struct {
	Name string // of the handler
	Shim string // path of its shim; empty for the embedded shim, with Program in place of runc
	// Program is the path of an OCI runtime with runc's command line; empty with Shim.
	Program string
}

// kataShim is the program of Kata Containers that containerd starts.
const kataShim = "containerd-shim-kata-v2"

// hostRuntimes are the runtimes that become handlers if they are installed. The names of the
// handlers are those of k3s (pkg/agent/containerd/runtimes.go) and of Kata's documentation.
var hostRuntimes = []struct{ handler, program string }{
	{"crun", "crun"},
	{"kata", kataShim},
	{"nvidia", "nvidia-container-runtime"},
	{"youki", "youki"},
}

// handlerDirs are directories, in addition to programDirs, of Kata's static packages and of
// NVIDIA's toolkit container.
var handlerDirs = []string{"/opt/kata/bin", "/usr/local/nvidia/toolkit"}

// Handlers returns the handlers of the programs that were found, which maps names of programs
// to paths. It is pure.
func Handlers(found map[string]string) []Handler {
	var out []Handler
	for _, r := range hostRuntimes {
		path := found[r.program]
		switch {
		case path == "":
		case r.program == kataShim:
			out = append(out, Handler{Name: r.handler, Shim: path})
		default:
			out = append(out, Handler{Name: r.handler, Program: path})
		}
	}
	return out
}

// The sections of containerd's configuration for its runtime service and, below it, for handlers.
const (
	runtimeSection  = "plugins.'io.containerd.cri.v1.runtime'"
	handlersSection = runtimeSection + ".containerd.runtimes"
)

// ReadNewHandlers returns the handlers of this host that containerd gets when it is started again: their
// programs were installed, or moved, after it had been started.
func ReadNewHandlers(ctx context.Context, l Layout) ([]Handler, error) {
	config, err := hostfile.ReadNoFollow(ctx, l.Config(), maxRecord)
	if err != nil {
		return nil, err
	}
	return missingHandlers(string(config), readHandlers()), nil
}

// missingHandlers returns the handlers that a configuration lacks. It is pure.
func missingHandlers(config string, have []Handler) []Handler {
	return slices.DeleteFunc(have, func(h Handler) bool {
		_, section, found := strings.Cut(config, "["+handlersSection+"."+h.Name+"]\n")
		return found && strings.Contains(section, quote(h.Path()))
	})
}

// Path returns the path of the handler's program on this host.
func (h Handler) Path() string { return h.Shim + h.Program }

// String returns text such as "crun (/usr/bin/crun)".
func (h Handler) String() string { return h.Name + " (" + h.Path() + ")" }

// OCIRuntimes are the state directories of runc and of the OCI runtimes of all handlers.
func (l Layout) OCIRuntimes() []string {
	dirs := []string{l.OCIRuntime("runc")}
	for _, r := range hostRuntimes {
		dirs = append(dirs, l.OCIRuntime(r.handler))
	}
	return dirs
}

// readHandlers finds the handlers of this host. Of several programs with one name, it uses
// the first in the order of the directories.
func readHandlers() []Handler {
	found := map[string]string{}
	for _, r := range hostRuntimes {
		for _, dir := range append(programDirs, handlerDirs...) {
			if path := filepath.Join(dir, r.program); found[r.program] == "" && isProgram(path) {
				found[r.program] = path
			}
		}
	}
	return Handlers(found)
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// configureHandler appends the configuration of a handler, with containerd's line function.
func configureHandler(line func(string, ...any), l Layout, digest, section string, h Handler, systemdCgroup bool) {
	line("[%s.%s]", section, h.Name)
	if h.Shim != "" {
		line("runtime_type = \"io.containerd.kata.v2\"")
		line("runtime_path = %s", quote(h.Shim))
		line("privileged_without_host_devices = true") // a virtual machine does not have the host's devices
		return
	}
	line("runtime_type = \"io.containerd.runc.v2\"")
	line("runtime_path = %s", quote(filepath.Join(l.Unpacked(digest), "bin", "containerd-shim-runc-v2")))
	line("[%s.%s.options]", section, h.Name)
	line("BinaryName = %s", quote(h.Program))
	line("Root = %s", quote(l.OCIRuntime(h.Name)))
	line("SystemdCgroup = %t", systemdCgroup)
}

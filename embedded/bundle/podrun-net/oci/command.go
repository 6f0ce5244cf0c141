package oci

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Name is the name of the program. podrun-oci (embedded/bundle/oci) starts it for the commands that may create a
// container, and runc for all others.
const Name = "podrun-oci-create"

// cgroupsVariable lists the controllers of the user's cgroups, separated by commas; with the value none, containers have
// no cgroups. containerd's shims inherit it.
const cgroupsVariable = "PODRUN_OCI_CGROUPS"

// Run changes the configuration of the container that the arguments create, if they create one, and
// executes the program runc in the directory of this one.
func Run(args []string) error {
	own, err := os.Executable()
	if err != nil {
		return err
	}
	if bundle, ok := bundleOf(args[1:]); ok {
		if err := rewriteFile(filepath.Join(bundle, "config.json"), thisHost()); err != nil {
			return err
		}
	}
	runc := filepath.Join(filepath.Dir(own), "runc")
	return fmt.Errorf("execute %s: %w", runc, unix.Exec(runc, append([]string{runc}, args[1:]...), os.Environ()))
}

// valueFlags are the options of runc, before and after the name of a command, that have a value.
var valueFlags = []string{
	"root", "log", "log-format", "criu", "rootless", "bundle", "b", "console-socket", "pidfd-socket", "pid-file", "preserve-fds",
	"image-path", "work-path", "parent-path", "manage-cgroups-mode", "empty-ns", "lsm-profile", "lsm-mount-context",
}

// bundleOf returns the bundle directory of a command that creates a container.
func bundleOf(args []string) (string, bool) {
	command, bundle := "", "."
	for i := 0; i < len(args); i++ {
		name, value, hasValue := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		if !strings.HasPrefix(args[i], "-") {
			if command == "" {
				command = args[i]
			}
			continue
		}
		if !hasValue && slices.Contains(valueFlags, name) && i+1 < len(args) {
			i++
			value = args[i]
		}
		if command != "" && value != "" && (name == "bundle" || name == "b") {
			bundle = value
		}
	}
	return bundle, command == "create" || command == "run" || command == "restore"
}

// rewriteFile replaces a config.json. A second call changes nothing.
func rewriteFile(path string, h Host) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // runc reports the error
	}
	if err != nil {
		return err
	}
	out, err := rewriteJSON(data, h)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	temporary := path + ".podrun"
	if err := os.WriteFile(temporary, out, info.Mode().Perm()); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

func rewriteJSON(data []byte, h Host) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // a float64 cannot represent all limits
	var spec object
	if err := d.Decode(&spec); err != nil {
		return nil, err
	}
	Rewrite(spec, h)
	return json.Marshal(spec)
}

// thisHost describes the namespaces of this process.
func thisHost() Host {
	_, missing := os.Stat("/dev/mqueue")
	ids, err := os.ReadFile("/proc/self/uid_map")
	fields := strings.Fields(string(ids))
	var controllers []string
	if value := os.Getenv(cgroupsVariable); value != "" {
		controllers = strings.Split(value, ",")
	}
	return Host{
		NoCgroups: slices.Equal(controllers, []string{"none"}), Controllers: controllers,
		SingleID: err == nil && len(fields) == 3 && fields[2] == "1",
		Mqueue:   missing == nil,
		Own:      isOwn,
	}
}

// isOwn compares the namespace at a path with that of this process.
func isOwn(kind, path string) bool {
	name := map[string]string{"network": "net", "mount": "mnt"}[kind]
	if name == "" {
		name = kind
	}
	var own, other unix.Stat_t
	if unix.Stat("/proc/self/ns/"+name, &own) != nil || unix.Stat(path, &other) != nil {
		return false
	}
	return own.Dev == other.Dev && own.Ino == other.Ino
}

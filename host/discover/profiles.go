package discover

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/podrun/podrun/internal/hostfile"
)

// appArmorProfiles lists the profiles that the kernel has loaded, in the kernel's order. An
// entry is a line such as "docker-default (enforce)". It returns nil if the list is unreadable.
func (m node) appArmorProfiles() []string {
	data, err := m.read(maxProcFile, "sys/kernel/security/apparmor/profiles")
	if err != nil {
		return nil
	}
	out := []string{}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if i := strings.LastIndex(line, " ("); i > 0 {
			line = line[:i]
		}
		if line != "" {
			out = append(out, line)
		}
	}
	return out
}

// largestProfile limits the size of a profile file, in bytes.
const largestProfile = 4 << 20

// readSeccomp returns the problem of each profile. It omits a name that leads out of the
// directory. The plan of the container rejects such a name.
func (m machine) readSeccomp(dir string, names []string) map[string]string {
	out := map[string]string{}
	for _, name := range names {
		if !filepath.IsLocal(name) {
			continue
		}
		out[name] = ""
		if err := m.checkSeccomp(filepath.Join(dir, name)); err != nil {
			out[name] = err.Error()
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// checkSeccomp parses a profile as runtimes do (the OCI's LinuxSeccomp in JSON).
func (m machine) checkSeccomp(path string) error {
	data, err := hostfile.Read(m.ctx, path, largestProfile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("open %s: no such file", path)
	case errors.Is(err, hostfile.ErrNotRegular):
		return fmt.Errorf("%s is not a regular file", path)
	case errors.Is(err, hostfile.ErrTooLarge):
		return fmt.Errorf("%s is larger than %d MiB", path, largestProfile>>20)
	case err != nil:
		return err
	}
	var profile struct {
		DefaultAction string `json:"defaultAction"`
		Syscalls      []struct {
			Names  []string `json:"names"`
			Action string   `json:"action"`
		} `json:"syscalls"`
	}
	if err := json.Unmarshal(data, &profile); err != nil {
		return fmt.Errorf("%s is not a seccomp profile: %w", path, err)
	}
	if profile.DefaultAction == "" {
		return fmt.Errorf("%s is not a seccomp profile: it has no defaultAction", path)
	}
	return nil
}

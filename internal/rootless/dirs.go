package rootless

import (
	"os"
	"path"
	"strconv"
	"strings"
)

// DataDir returns the user's root directory: $XDG_DATA_HOME/podrun.
func DataDir() string { return userDir("XDG_DATA_HOME", ".local/share") }

// ConfigDir returns the user's directory of settings and manifests: $XDG_CONFIG_HOME/podrun.
func ConfigDir() string { return userDir("XDG_CONFIG_HOME", ".config") }

// userDir returns podrun's directory in the directory that a variable of the XDG Base Directory Specification names.
// The specification ignores relative paths.
func userDir(variable, otherwise string) string {
	dir := os.Getenv(variable)
	if !path.IsAbs(dir) {
		dir = path.Join(Home(), otherwise)
	}
	return path.Join(dir, "podrun")
}

// Home returns the user's home directory: $HOME, or the one in /etc/passwd.
func Home() string {
	if home := os.Getenv("HOME"); path.IsAbs(home) {
		return home
	}
	data, _ := os.ReadFile("/etc/passwd") // without the file, no user has an entry
	if f := passwdEntry(string(data), UID()); len(f) > 5 && path.IsAbs(f[5]) {
		return f[5]
	}
	return "/"
}

// UserName returns the user's name in /etc/passwd, or the user's ID.
func UserName() string {
	data, _ := os.ReadFile("/etc/passwd") // without the file, no user has an entry
	if f := passwdEntry(string(data), UID()); len(f) > 0 && f[0] != "" {
		return f[0]
	}
	return strconv.Itoa(UID())
}

// Lingers reports whether the user's systemd starts at boot and survives the last session (loginctl enable-linger).
func Lingers() bool {
	_, err := os.Lstat(path.Join("/var/lib/systemd/linger", UserName()))
	return err == nil
}

// passwdEntry returns the fields of a user's line in /etc/passwd; nil if there is none.
func passwdEntry(text string, uid int) []string {
	id := strconv.Itoa(uid)
	for line := range strings.Lines(text) {
		if f := strings.Split(strings.TrimSuffix(line, "\n"), ":"); len(f) > 2 && f[2] == id {
			return f
		}
	}
	return nil
}

// ManagerSocket returns the socket of the user's systemd manager; "" if there is none. The manager needs no D-Bus daemon
// to accept requests there.
func ManagerSocket() string {
	for _, dir := range []string{os.Getenv("XDG_RUNTIME_DIR"), "/run/user/" + strconv.Itoa(UID())} {
		socket := path.Join(dir, "systemd/private")
		if info, err := os.Lstat(socket); path.IsAbs(dir) && err == nil && info.Mode().Type() == os.ModeSocket {
			return socket
		}
	}
	return ""
}

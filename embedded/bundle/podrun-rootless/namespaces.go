package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// startNamespaces starts a child in new namespaces, and sets its ID maps. The child reports the
// result.
func startNamespaces(o options, lock *os.File) error {
	maps, why, err := planMaps()
	if err != nil {
		return err
	}
	o.singleIDReason = why
	wait, release, err := os.Pipe()
	if err != nil {
		return err
	}
	defer release.Close() // without a byte, the child ends
	child := &exec.Cmd{
		Path: "/proc/self/exe", Args: o.arguments(stageWait), Stderr: os.Stderr,
		ExtraFiles:  []*os.File{os.NewFile(uintptr(readyFD), "ready"), lock, wait},
		SysProcAttr: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS},
	}
	if err := child.Start(); err != nil {
		return noUserNamespaces(err)
	}
	_ = wait.Close()
	fault("maps/before")
	if err := maps.set(child.Process.Pid); err != nil {
		_ = child.Process.Kill()
		_ = child.Wait()
		return err
	}
	fault("maps/after")
	_, err = release.Write([]byte{0})
	return err
}

// awaitMaps is the stage of the child. The kernel gives the capabilities of U to a program that user
// 0 of U executes, so it executes itself.
func awaitMaps(o options) error {
	maps := os.NewFile(syncFD, "sync")
	if _, err := io.ReadFull(maps, make([]byte, 1)); err != nil {
		return errors.New("the process that sets the ID maps has ended")
	}
	_ = maps.Close()
	for _, fd := range []int{passedFD, lockFD} {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return err
		}
	}
	return fmt.Errorf("execute podrun-rootless in the user namespace: %w", syscall.Exec("/proc/self/exe", o.arguments(stageSetup), os.Environ()))
}

// idMaps are the ID maps to set.
type idMaps struct {
	users, groups        []idRange
	newUIDMap, newGIDMap string // programs; empty with a single ID
}

// planMaps reads the subordinate IDs of the user. Without them, it returns a map of a single ID, and
// the reason.
func planMaps() (idMaps, string, error) {
	uid, gid := os.Geteuid(), os.Getegid()
	single := idMaps{users: idMap(uid, nil), groups: idMap(gid, nil)}
	full := idMaps{newUIDMap: findProgram("newuidmap"), newGIDMap: findProgram("newgidmap")}
	if full.newUIDMap == "" || full.newGIDMap == "" {
		return single, "newuidmap or newgidmap is not installed", nil
	}
	name := userName(uid)
	for _, one := range []struct {
		file string
		own  int
		to   *[]idRange
	}{{"/etc/subuid", uid, &full.users}, {"/etc/subgid", gid, &full.groups}} {
		all, source, err := subordinate(one.file, name, uid)
		if err != nil {
			return single, "", err
		}
		if *one.to = idMap(one.own, all); len(*one.to) == 1 {
			return single, fmt.Sprintf("%s has no range for the user %s", source, name), nil
		}
	}
	return full, "", nil
}

// subordinate returns the ranges of a user in a file, or, if /etc/nsswitch.conf names another source, which newuidmap
// uses then, those that getsubids prints. getsubids also fails for a user without ranges.
func subordinate(file, name string, uid int) (all []idRange, source string, err error) {
	config, _ := os.ReadFile("/etc/nsswitch.conf") // without the file, there is no name service
	service := nameService(string(config))
	if service == "" {
		data, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, file, err
		}
		return ranges(string(data), name, uid), file, nil
	}
	source = "the source " + service + " in /etc/nsswitch.conf"
	args := []string{name}
	if filepath.Base(file) == "subgid" {
		args = []string{"-g", name}
	}
	out, err := exec.Command(cmp.Or(findProgram("getsubids"), "getsubids"), args...).Output()
	if err != nil {
		return nil, source + " (" + err.Error() + " of getsubids)", nil
	}
	return ranges(rangeLines(string(out)), name, uid), source, nil
}

// userName returns the name of a user, or its number. This program has no access to name services, so
// it trusts the environment for users that are not in /etc/passwd; newuidmap checks the name.
func userName(uid int) string {
	passwd, _ := os.ReadFile("/etc/passwd")
	for _, name := range []string{nameOf(string(passwd), uid), os.Getenv("USER"), os.Getenv("LOGNAME")} {
		if name != "" {
			return name
		}
	}
	return strconv.Itoa(uid)
}

// findProgram returns the path of a program, or "". PATH may lack the system's directories.
func findProgram(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, dir := range []string{"/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	return ""
}

// set sets the maps of a process.
func (m idMaps) set(pid int) error {
	proc := "/proc/" + strconv.Itoa(pid)
	if m.newUIDMap == "" {
		// Otherwise a process could drop a group that denies it access.
		err := os.WriteFile(proc+"/setgroups", []byte("deny"), 0)
		if err == nil {
			err = os.WriteFile(proc+"/uid_map", []byte(mapText(m.users)), 0)
		}
		if err == nil {
			err = os.WriteFile(proc+"/gid_map", []byte(mapText(m.groups)), 0)
		}
		if err != nil {
			return noUserNamespaces(err)
		}
		return nil
	}
	if err := runMap(m.newUIDMap, pid, m.users); err != nil {
		return err
	}
	return runMap(m.newGIDMap, pid, m.groups)
}

func runMap(program string, pid int, ids []idRange) error {
	c := exec.Command(program, append([]string{strconv.Itoa(pid)}, mapArguments(ids)...)...)
	var output bytes.Buffer
	c.Stdout, c.Stderr = &output, &output
	if err := c.Run(); err != nil {
		text := strings.TrimSpace(output.String())
		hint := "check /etc/subuid and /etc/subgid, and that " + program + " is setuid root"
		if flags, e := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); e == nil && flags == 1 {
			hint = "the process has no_new_privs, so that setuid programs have no effect: start podrun without this setting"
		}
		if strings.Contains(text, "determine your user name") {
			hint = "add the user to /etc/passwd: newuidmap refuses users without a name"
		}
		return &problem{"IDMapFailed", hint, fmt.Errorf("%s: %w: %s", program, err, text)}
	}
	return nil
}

// noUserNamespaces explains why the kernel refuses a user namespace.
func noUserNamespaces(err error) error {
	hint := "a security module or a seccomp filter may forbid user namespaces"
	for _, s := range []struct{ name, value, hint string }{
		{"user/max_user_namespaces", "0", "set the sysctl user.max_user_namespaces"},
		{"kernel/unprivileged_userns_clone", "0", "set the sysctl kernel.unprivileged_userns_clone to 1"},
		{"kernel/apparmor_restrict_unprivileged_userns", "1", "install an AppArmor profile for podrun, or set the sysctl kernel.apparmor_restrict_unprivileged_userns to 0"},
	} {
		if data, e := os.ReadFile("/proc/sys/" + s.name); e == nil && strings.TrimSpace(string(data)) == s.value {
			hint = s.hint
		}
	}
	return &problem{"NoUserNamespaces", hint, fmt.Errorf("create a user namespace: %w", err)}
}

package cri

import (
	"errors"
	"testing"
)

func TestCommandFailure(t *testing.T) {
	const create = "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
	for _, c := range []struct {
		text, why  string
		absent, ok bool
	}{
		{create + `runc create failed: unable to start container process: exec: "x": executable file not found in $PATH: unknown`, `exec: "x": executable file not found in $PATH`, true, true},
		{create + `runc create failed: unable to start container process: error during container init: exec: "/x": stat /x: no such file or directory: unknown`, `exec: "/x": stat /x: no such file or directory`, true, true},
		{create + `runc create failed: unable to start container process: exec: "/etc": is a directory: unknown`, `exec: "/etc": is a directory`, false, true},
		{create + `runc create failed: unable to start container process: exec: "/etc/passwd": permission denied: unknown`, `exec: "/etc/passwd": permission denied`, false, true},
		{create + "executable file `x` not found in $PATH: No such file or directory: unknown", "executable file `x` not found in $PATH: No such file or directory", true, true},
		{create + `runc create failed: unable to start container process: error during container init: error mounting "/x" to rootfs at "/x": no such file or directory: unknown`, "", false, false},
		{create + `runc create failed: unable to start container process: chdir to cwd ("/nope") set in config.json failed: no such file or directory: unknown`, "", false, false},
		{"shim disconnected", "", false, false},
		// texts of CRI-O, with runc and with crun
		{`container create failed: time="2026-11-22T07:00:00Z" level=error msg="runc create failed: unable to start container process: exec: \"/x\": stat /x: no such file or directory"` + "\n", `exec: "/x": stat /x: no such file or directory`, true, true},
		{"container create failed: executable file `x` not found in $PATH: No such file or directory\n", "executable file `x` not found in $PATH: No such file or directory", true, true},
		{`container create failed: time="2026-11-22T07:00:00Z" level=error msg="runc create failed: unable to start container process: error mounting \"/x\": no such file or directory"` + "\n", "", false, false},
	} {
		if why, absent, ok := CommandFailure(errors.New(c.text)); why != c.why || absent != c.absent || ok != c.ok {
			t.Errorf("%s: %q, %v, %v", c.text, why, absent, ok)
		}
	}
	if _, _, ok := CommandFailure(nil); ok {
		t.Error("no error is one")
	}
}

func TestExecFailure(t *testing.T) {
	for _, c := range []struct {
		text, why  string
		absent, ok bool
	}{
		{`failed to exec in container: failed to start exec "ab": OCI runtime exec failed: exec failed: unable to start container process: exec: "x": executable file not found in $PATH: unknown`, `exec: "x": executable file not found in $PATH`, true, true},
		{`failed to exec in container: failed to start exec "ab": OCI runtime exec failed: exec failed: unable to start container process: chdir to cwd ("/x") set in config.json failed: permission denied: unknown`, `chdir to cwd ("/x") set in config.json failed: permission denied`, false, true},
		{`command error: time="2026-11-22T07:00:00Z" level=error msg="exec failed: unable to start container process: exec: \"x\": executable file not found in $PATH"` + "\n, stdout: , stderr: , exit code -1", `exec: "x": executable file not found in $PATH`, true, true},
		{`command error: time="2026-11-22T07:00:00Z" level=error msg="exec failed: unable to start container process: exec: \"/etc\": permission denied"` + "\n, stdout: , stderr: , exit code -1", `exec: "/etc": permission denied`, false, true},
		{`command error: time="2026-11-22T07:00:00Z" level=error msg="exec failed: unable to start container process: chdir to cwd (\"/x\") set in config.json failed: permission denied"` + "\n, stdout: , stderr: , exit code -1", `chdir to cwd ("/x") set in config.json failed: permission denied`, false, true},
		{"command error: executable file `x` not found in $PATH: No such file or directory\n, stdout: , stderr: , exit code -1", "executable file `x` not found in $PATH: No such file or directory", true, true},
		{"command error: EOF, stdout: , stderr: , exit code -1", "", false, false},
		{"could not find container", "", false, false},
	} {
		if why, absent, ok := ExecFailure(errors.New(c.text)); why != c.why || absent != c.absent || ok != c.ok {
			t.Errorf("%s: %q, %v, %v", c.text, why, absent, ok)
		}
	}
	if _, _, ok := ExecFailure(nil); ok {
		t.Error("no error is one")
	}
}

// TestNotRunning checks the texts with which runtimes refuse to run a command in a container that has
// just exited.
func TestNotRunning(t *testing.T) {
	for text, want := range map[string]bool{
		"Internal error occurred: error executing command in container: failed to exec in container: failed to load task: no running task found: not found": true,
		`failed to exec in container: failed to create exec "af": task bc not found: not found`:                                                             true,
		`failed to exec in container: failed to create exec "af": cannot exec in a stopped state: unknown`:                                                  true,
		`failed to exec in container: failed to create exec "af": cannot exec in a deleted state: unknown`:                                                  true,
		`failed to exec in container: failed to create exec "af": container not created: not found`:                                                         true,
		"OCI runtime exec failed: exec failed: cannot exec in a stopped container: unknown":                                                                 true,
		"OCI runtime exec failed: exec failed: unable to start container process: exec: \"nosuch\": executable file not found in $PATH: unknown":            false,
	} {
		if NotRunning(errors.New(text)) != want {
			t.Errorf("%q: want %t", text, want)
		}
	}
}

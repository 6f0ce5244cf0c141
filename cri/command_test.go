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
	} {
		if why, absent, ok := CommandFailure(errors.New(c.text)); why != c.why || absent != c.absent || ok != c.ok {
			t.Errorf("%s: %q, %v, %v", c.text, why, absent, ok)
		}
	}
	if _, _, ok := CommandFailure(nil); ok {
		t.Error("no error is one")
	}
}

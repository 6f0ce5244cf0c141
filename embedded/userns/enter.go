package userns

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/rootless"
)

// Enter executes a program, usually podrun itself, in the namespaces of podrun-rootless. It returns only after an
// error.
func Enter(r *rootless.Record, args []string) error {
	program, err := os.Executable()
	if err != nil {
		return failed(err, "")
	}
	if strings.HasSuffix(program, " (deleted)") {
		return &problem.Error{Kind: problem.Runtime, Object: "podrun", Err: errors.New("the program " + program + " was removed while it was running"), Hint: "run the command again"}
	}
	argv := rootless.EnterArgs(r.Enter, r.PID, r.StartTime, program, args)
	err = unix.Exec(argv[0], argv, os.Environ())
	return &problem.Error{Kind: problem.Runtime, Object: keeper, Op: "enter its namespaces: execute " + argv[0], Err: err}
}

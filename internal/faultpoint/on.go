//go:build faultpoints

package faultpoint

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// These are the environment variables that the sweep sets.
const (
	// killEnv names the step at which the process kills itself with SIGKILL. Its form is
	// STEP#N[@DELAY]. The process dies DELAY after it has reached STEP for the N-th time, counted
	// from 1.
	killEnv = "PODRUN_FAULTPOINT"
	// stopEnv, if it is not empty, makes the process stop at that step instead, until it receives SIGCONT, so that a sweep
	// can kill another process.
	stopEnv = "PODRUN_FAULTPOINT_STOP"
	// traceEnv names a file. The process appends each step that it reaches.
	traceEnv = "PODRUN_FAULTPOINT_TRACE"
)

var (
	mu   sync.Mutex
	seen = map[string]int{}
)

// tokens matches the random parts of file names. These parts differ between runs.
var tokens = regexp.MustCompile(`[0-9a-f]{16,}`)

// At marks a step between two changes of the host.
func At(step string) {
	mu.Lock()
	defer mu.Unlock()
	step = tokens.ReplaceAllString(step, "token")
	seen[step]++
	if file := os.Getenv(traceEnv); file != "" {
		trace(file, fmt.Sprintf("%s#%d\n", step, seen[step]))
	}
	at, delay, delayed := strings.Cut(os.Getenv(killEnv), "@")
	name, n, _ := strings.Cut(at, "#")
	if want, err := strconv.Atoi(n); err != nil || name != step || want != seen[step] {
		return
	}
	if !delayed {
		kill()
		return
	}
	d, err := time.ParseDuration(delay)
	if err != nil {
		panic(err)
	}
	time.AfterFunc(d, kill)
}

// Call marks a call to another process. It marks three steps: before the call, during the call,
// and after the call, when the caller calls the returned function.
func Call(step string) (answered func()) {
	At(step + "/before")
	At(step + "/sent")
	return func() { At(step + "/after") }
}

func kill() {
	if os.Getenv(stopEnv) != "" {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func trace(file, line string) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.WriteString(line); err != nil {
		panic(err)
	}
}

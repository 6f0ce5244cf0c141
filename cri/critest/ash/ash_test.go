package ash

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// tree is a file system in a map; the names of directories end with a slash.
type tree map[string]string

func (t tree) Read(p string) ([]byte, error) {
	if s, ok := t[p]; ok {
		return []byte(s), nil
	}
	return nil, errors.New("No such file or directory")
}

func (t tree) Write(p string, data []byte, appending bool) error {
	if strings.HasPrefix(p, "/ro/") {
		return errors.New("Read-only file system")
	}
	if !appending {
		t[p] = ""
	}
	t[p] += string(data)
	return nil
}

func (t tree) Kind(p string) byte {
	if _, ok := t[p]; ok {
		return 'f'
	}
	if _, ok := t[p+"/"]; ok || p == "/" || p == "/tmp" {
		return 'd'
	}
	return 0
}

func (t tree) List(p string) ([]string, error) {
	var names []string
	for k := range t {
		if rest, ok := strings.CutPrefix(k, strings.TrimSuffix(p, "/")+"/"); ok && rest != "" {
			names = append(names, rest)
		}
	}
	slices.Sort(names)
	return names, nil
}

func (t tree) MakeDir(p string) error { t[p+"/"] = ""; return nil }

// do runs a command until it exits, and returns its exit code and output.
func do(p Process) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	p.Stdout, p.Stderr = &out, &err
	if p.Files == nil {
		p.Files = tree(maps.Clone(ScriptFiles))
	}
	p.Hostname = "pod-name"
	p.Env = append(ScriptEnv[:2:2], p.Env...)
	code = Run(context.Background(), p)
	return code, out.String(), err.String()
}

func TestScripts(t *testing.T) {
	for _, c := range Scripts {
		t.Run(c.Text, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				code, stdout, stderr := do(Process{Args: []string{"/bin/sh", "-c", c.Text}})
				if code != c.Code || stdout != c.Stdout || stderr != c.Stderr {
					t.Errorf("got code %d, stdout %q, stderr %q\nwant %d, %q, %q", code, stdout, stderr, c.Code, c.Stdout, c.Stderr)
				}
			})
		})
	}
}

// TestUnsupported checks that an unsupported construct ends the shell, because a script must not
// continue without it.
func TestUnsupported(t *testing.T) {
	for script, stderr := range map[string]string{
		"for x in a; do echo $x; done": "sh: *syntax.ForClause is not supported\n",
		"case a in a) echo a;; esac":   "sh: *syntax.CaseClause is not supported\n",
		"f() { echo; }; f":             "sh: *syntax.FuncDecl is not supported\n",
		"set -e; false; echo on":       "sh: set is not supported\n",
		"FOO=bar env":                  "sh: assignments before a command are not supported\n",
		"trap 'echo bye' EXIT":         "sh: trap echo bye EXIT is not supported\n",
		"sleep 1 & wait $!":            "sh: wait $! is not supported\n",
		"kill 1":                       "sh: kill 1 is not supported\n",
		"a=(b)":                        "sh: syntax error: 1:3: arrays are a bash/mksh feature; tried parsing as posix\n",
	} {
		code, stdout, got := do(Process{Args: []string{"sh", "-c", script + "; echo never"}})
		if code != 2 || stdout != "" || got != stderr {
			t.Errorf("%s: got code %d, stdout %q, stderr %q; want 2, %q", script, code, stdout, got, stderr)
		}
	}
}

func TestPrograms(t *testing.T) {
	for _, c := range []struct {
		args   []string
		stdout string
		code   int
	}{
		{[]string{"true"}, "", 0},
		{[]string{"false"}, "", 1},
		{[]string{"echo", "$NAME"}, "$NAME\n", 0},
		{[]string{"/bin/cat", "/etc/motd"}, "hello\nworld\n", 0},
		{[]string{"/bin/sh", "-c", "exit 9"}, "", 9},
		{[]string{"sleep", "0.5"}, "", 0},
		{[]string{"env"}, "EMPTY=\nNAME=ada\n", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			code, stdout, _ := do(Process{Args: c.args})
			if code != c.code || stdout != c.stdout {
				t.Errorf("%q: got code %d, stdout %q; want %d, %q", c.args, code, stdout, c.code, c.stdout)
			}
		})
	}
	if Known([]string{"nginx"}) || Known(nil) || !Known([]string{"/usr/bin/env"}) {
		t.Error("Known returns true for nginx or no arguments, or false for /usr/bin/env")
	}
}

// TestTERM checks a process that receives TERM after 1.5 s. Whether and how the process exits
// depends on its PID and its trap.
func TestTERM(t *testing.T) {
	loop := "while :; do sleep 1; done"
	for _, c := range []struct {
		name  string
		args  []string
		init  bool
		code  int
		after time.Duration
	}{
		{"a shell waits for its script", []string{"sh"}, false, 143, 1500 * time.Millisecond},
		{"init without a trap ignores it", []string{"sh", "-c", "sleep 10; exit 4"}, true, 4, 10 * time.Second},
		{"init that is no shell ignores it", []string{"sleep", "10"}, true, 0, 10 * time.Second},
		{"another process dies of it", []string{"sleep", "10"}, false, 143, 1500 * time.Millisecond},
		{"a trap runs when the command is over", []string{"sh", "-c", "trap 'exit 3' TERM; " + loop}, true, 3, 2 * time.Second},
		{"so in another process", []string{"sh", "-c", "trap 'exit 3' TERM; " + loop}, false, 3, 2 * time.Second},
		{"a wait is interrupted", []string{"sh", "-c", "trap 'exit 3' TERM; sleep 9 & wait"}, true, 3, 1500 * time.Millisecond},
		{"trap exit", []string{"sh", "-c", "trap exit TERM; " + loop}, true, 0, 2 * time.Second},
		{"an ignored one", []string{"sh", "-c", "trap '' TERM; sleep 5; exit 1"}, false, 1, 5 * time.Second},
		{"exec takes the trap away", []string{"sh", "-c", "trap 'exit 3' TERM; exec sleep 5"}, false, 143, 1500 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				term := make(chan struct{}, 1)
				start := time.Now()
				time.AfterFunc(1500*time.Millisecond, func() { term <- struct{}{} })
				open, never := io.Pipe()
				code, _, stderr := do(Process{Args: c.args, Stdin: open, Init: c.init, TERM: term})
				never.Close()
				if took := time.Since(start); code != c.code || took != c.after || stderr != "" {
					t.Errorf("got code %d after %v, stderr %q; want %d after %v", code, took, stderr, c.code, c.after)
				}
			})
		})
	}
}

// TestKillSelf checks a process that sends KILL to itself. The kernel protects process 1 of a PID
// namespace from a KILL that is sent inside the namespace.
func TestKillSelf(t *testing.T) {
	for init, want := range map[bool]int{true: 6, false: 137} {
		if code, _, _ := do(Process{Args: []string{"sh", "-c", "kill -9 $$; exit 6"}, Init: init}); code != want {
			t.Errorf("init %v: got code %d, want %d", init, code, want)
		}
	}
}

// TestCanceled checks that no goroutine of a killed process remains. Otherwise, the synctest bubble
// would not end.
func TestCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		code := Run(ctx, Process{Args: []string{"sh", "-c", "sleep 86400 & while :; do echo; sleep 1; done | cat"}, Files: tree{}, Stdout: io.Discard, Stderr: io.Discard})
		if code != 137 {
			t.Errorf("got code %d, want 137", code)
		}
	})
}

package ash

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// tree is a file system of one map; directories end in a slash.
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

func (t tree) Remove(p string) error {
	if _, ok := t[p]; !ok {
		return errors.New("No such file or directory")
	}
	delete(t, p)
	return nil
}

// do runs a command to its end and gives its code and outputs.
func do(p Process) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	p.Stdout, p.Stderr = &out, &err
	if p.Files == nil {
		p.Files = tree{"/etc/motd": "hello\nworld\n"}
	}
	p.Hostname = "pod-1"
	p.Env = append([]string{"NAME=ada", "EMPTY="}, p.Env...)
	code = Run(context.Background(), p)
	return code, out.String(), err.String()
}

func TestScripts(t *testing.T) {
	for _, c := range []struct {
		script, stdout, stderr string
		code                   int
	}{
		{script: `echo a  b; echo 'a  b' "c $NAME" \$NAME`, stdout: "a b\na  b c ada $NAME\n"},
		{script: `echo "$NAME-${NAME}x ${NONE:-none} ${EMPTY:-empty} ${EMPTY-} ${#NAME} ${NAME%a} ${NAME#?}"`, stdout: "ada-adax none empty  3 ad da\n"},
		{script: "echo one >&2; echo two 1>&2; echo three 2>&1", stdout: "three\n", stderr: "one\ntwo\n"},
		{script: "false || echo or; true && echo and; false && echo no; exit 3", stdout: "or\nand\n", code: 3},
		{script: "false || false && echo no || echo yes", stdout: "yes\n"},
		{script: "nosuch; echo $?", stdout: "127\n", stderr: "sh: nosuch: not found\n"},
		{script: "if [ $NAME = ada ]; then echo y; else echo n; fi; if false; then :; elif true; then echo elif; fi", stdout: "y\nelif\n"},
		{script: "i=0; while [ $i -lt 3 ]; do i=$((i+1)); echo $i; done", stdout: "1\n2\n3\n"},
		{script: "for x in a 'b c' $NAME; do [ $x = ada ] && break; echo \"$x\"; done", stdout: "a\nb c\n", stderr: "sh: c: unknown operand\n"},
		{script: "case $NAME in bob) echo b;; a*|c) echo a;; *) echo z;; esac", stdout: "a\n"},
		{script: "echo hi > /tmp/f; echo ho >> /tmp/f; cat /tmp/f; test -e /tmp/f && [ ! -e /tmp/g ] && [ -d /tmp ]; echo $?", stdout: "hi\nho\n0\n"},
		{script: "cat /nope; echo $?", stdout: "1\n", stderr: "cat: can't open '/nope': No such file or directory\n"},
		{script: "echo x > /ro/f; echo $?", stdout: "1\n", stderr: "sh: can't create /ro/f: Read-only file system\n"},
		{script: "echo $(cat /etc/motd) `echo back`; x=$(exit 4); echo $?", stdout: "hello world back\n4\n"},
		{script: "cat /etc/motd | grep -c l; printf '%s-%d\\n' a 1 b 2", stdout: "2\na-1\nb-2\n"},
		{script: "hostname; printenv NAME; printenv NONE; env | grep NAME", stdout: "pod-1\nada\nNAME=ada\n"},
		{script: "set -e; if false; then :; fi; false || true; ! true; echo on; false; echo off", stdout: "on\n", code: 1},
		{script: "set -u; echo ${NONE}; echo never", stderr: "sh: NONE: parameter not set\n", code: 2},
		{script: "trap 'echo bye' EXIT; exit 5", stdout: "bye\n", code: 5},
		{script: "(exit 3); echo $?; { echo a; echo b; } > /tmp/g; cat /tmp/g", stdout: "3\na\nb\n"},
		{script: "sleep 1 & p=$!; wait $p; echo done $?; (sleep 1; exit 6) & wait $!; echo $?", stdout: "done 0\n6\n"},
		{script: "echo a b c | while read x y; do echo \"$y\"; done", stdout: "b c\n"},
		{script: "set -- a 'b c'; for x in \"$@\"; do echo $x; done; echo $# $2; shift; echo $1", stdout: "a\nb c\n2 b c\nb c\n"},
		{script: "FOO=bar printenv FOO; echo [$FOO]", stdout: "bar\n[]\n"},
		{script: "sh -c 'echo $0 $1' x y; exec echo gone; echo never", stdout: "x y\ngone\n"},
		{script: "while :; do echo y; done | head -n 2", stdout: "y\ny\n"},
		{script: "echo 'unfinished", stderr: "sh: syntax error: unterminated quoted string\n", code: 2},
		{script: "if true; then echo", stderr: "sh: syntax error: unexpected \"eof\"\n", code: 2},
		{script: "# a comment\necho a # and one\n\necho b;\n", stdout: "a\nb\n"},
		{script: "timeout 1 sleep 5; echo $?; [ 1 -eq 2 ]; echo $?; echo $((7/2*2%4)) $((3>2)) $(( (1+2)*3 ))", stdout: "143\n1\n2 1 9\n"},
		{script: "mkdir -p /a/b; touch /a/b/c; ls /a/b; rm /a/b/c; ls /a/b; cd /a/b && pwd", stdout: "c\n/a/b\n"},
	} {
		t.Run(c.script, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				code, stdout, stderr := do(Process{Args: []string{"/bin/sh", "-c", c.script}})
				if code != c.code || stdout != c.stdout || stderr != c.stderr {
					t.Errorf("got code %d, stdout %q, stderr %q\nwant %d, %q, %q", code, stdout, stderr, c.code, c.stdout, c.stderr)
				}
			})
		})
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
		{[]string{"busybox", "sh", "-c", "exit 9"}, "", 9},
		{[]string{"sleep", "0.5", "1m"}, "", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			code, stdout, _ := do(Process{Args: c.args})
			if code != c.code || stdout != c.stdout {
				t.Errorf("%q: got code %d, stdout %q; want %d, %q", c.args, code, stdout, c.code, c.stdout)
			}
		})
	}
	if Known([]string{"nginx"}) || Known(nil) || !Known([]string{"/usr/bin/env"}) {
		t.Error("Known is wrong about nginx, nothing or /usr/bin/env")
	}
}

// A TERM after 1.5 s; when the process ends, and how, depends on who it is and
// on its trap.
func TestTERM(t *testing.T) {
	loop := "while :; do sleep 1; done"
	for _, c := range []struct {
		name  string
		args  []string
		init  bool
		code  int
		after time.Duration
	}{
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
				code, _, stderr := do(Process{Args: c.args, Init: c.init, TERM: term})
				if took := time.Since(start); code != c.code || took != c.after || stderr != "" {
					t.Errorf("got code %d after %v, stderr %q; want %d after %v", code, took, stderr, c.code, c.after)
				}
			})
		})
	}
}

// The kernel shields process 1 of a PID namespace from KILL that comes from
// within.
func TestKillSelf(t *testing.T) {
	for init, want := range map[bool]int{true: 6, false: 137} {
		if code, _, _ := do(Process{Args: []string{"sh", "-c", "kill -9 $$; exit 6"}, Init: init}); code != want {
			t.Errorf("init %v: got code %d, want %d", init, code, want)
		}
	}
}

// A process that is killed leaves no goroutine behind: the bubble would hang.
func TestCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		code := Run(ctx, Process{Args: []string{"sh", "-c", "sleep 1d & while :; do echo; sleep 1; done | cat"}, Files: tree{}})
		if code != 137 {
			t.Errorf("got code %d, want 137", code)
		}
	})
}

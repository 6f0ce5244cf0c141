package ash

// Script is a script and what it does.
type Script struct {
	Text, Stdout, Stderr string
	Code                 int
}

// ScriptEnv and ScriptFiles are what Scripts find, beside a read-only directory
// /ro.
var (
	ScriptEnv   = []string{"NAME=ada", "EMPTY="}
	ScriptFiles = map[string]string{"/etc/motd": "hello\nworld\n"}
)

// Scripts do the same here and in busybox's shell, where only the wording of
// stderr may differ.
var Scripts = []Script{
	{Text: `echo a  b; echo 'a  b' "c $NAME" \$NAME`, Stdout: "a b\na  b c ada $NAME\n"},
	{Text: `echo "$NAME-${NAME}x ${NONE:-none} ${EMPTY:-empty} ${EMPTY-} ${#NAME} ${NAME%a} ${NAME#?}"`, Stdout: "ada-adax none empty  3 ad da\n"},
	{Text: "echo one >&2; echo two 1>&2; echo three 2>&1", Stdout: "three\n", Stderr: "one\ntwo\n"},
	{Text: "false || echo or; true && echo and; false && echo no; exit 3", Stdout: "or\nand\n", Code: 3},
	{Text: "false || false && echo no || echo yes", Stdout: "yes\n"},
	{Text: "nosuch; echo $?", Stdout: "127\n", Stderr: "sh: nosuch: not found\n"},
	{Text: "if [ $NAME = ada ]; then echo y; else echo n; fi; if false; then :; elif true; then echo elif; fi", Stdout: "y\nelif\n"},
	{Text: "i=0; while [ $i -lt 3 ]; do i=$((i+1)); echo $i; done", Stdout: "1\n2\n3\n"},
	{Text: "for x in a 'b c' $NAME; do [ $x = ada ] && break; echo \"$x\"; done", Stdout: "a\nb c\n", Stderr: "sh: c: unknown operand\n"},
	{Text: "case $NAME in bob) echo b;; a*|c) echo a;; *) echo z;; esac", Stdout: "a\n"},
	{Text: "echo hi > /tmp/f; echo ho >> /tmp/f; cat /tmp/f; test -e /tmp/f && [ ! -e /tmp/g ] && [ -d /tmp ]; echo $?", Stdout: "hi\nho\n0\n"},
	{Text: "cat /nope; echo $?", Stdout: "1\n", Stderr: "cat: can't open '/nope': No such file or directory\n"},
	{Text: "echo x > /ro/f; echo $?", Stdout: "1\n", Stderr: "sh: can't create /ro/f: Read-only file system\n"},
	{Text: "echo $(cat /etc/motd) `echo back`; x=$(exit 4); echo $?", Stdout: "hello world back\n4\n"},
	{Text: "cat /etc/motd | grep -c l; printf '%s-%d\\n' a 1 b 2", Stdout: "2\na-1\nb-2\n"},
	{Text: "hostname; env | grep '^NAME'", Stdout: "pod-name\nNAME=ada\n"},
	{Text: "set -e; if false; then :; fi; false || true; ! true; echo on; false; echo off", Stdout: "on\n", Code: 1},
	{Text: "set -u; echo ${NONE}; echo never", Stderr: "sh: NONE: parameter not set\n", Code: 2},
	{Text: "trap 'echo bye' EXIT; exit 5", Stdout: "bye\n", Code: 5},
	{Text: "(exit 3); echo $?; { echo a; echo b; } > /tmp/g; cat /tmp/g", Stdout: "3\na\nb\n"},
	{Text: "sleep 0.1 & p=$!; wait $p; echo done $?; (sleep 0.1; exit 6) & wait $!; echo $?", Stdout: "done 0\n6\n"},
	{Text: "echo a b c | while read x y; do echo \"$y\"; done", Stdout: "b c\n"},
	{Text: "set -- a 'b c'; for x in \"$@\"; do echo $x; done; echo $# $2; shift; echo $1", Stdout: "a\nb c\n2 b c\nb c\n"},
	{Text: "FOO=bar env | grep FOO; echo [$FOO]", Stdout: "FOO=bar\n[]\n"},
	{Text: "sh -c 'echo $0 $1' x y; exec echo gone; echo never", Stdout: "x y\ngone\n"},
	{Text: "while :; do echo y; done | head -n 2", Stdout: "y\ny\n"},
	{Text: "echo 'unfinished", Stderr: "sh: syntax error: unterminated quoted string\n", Code: 2},
	{Text: "if true; then echo", Stderr: "sh: syntax error: unexpected \"eof\"\n", Code: 2},
	{Text: "# a comment\necho a # and one\n\necho b;\n", Stdout: "a\nb\n"},
	{Text: "[ 1 -eq 2 ]; echo $?; echo $((7/2*2%4)) $((3>2)) $(( (1+2)*3 ))", Stdout: "1\n2 1 9\n"},
	{Text: "mkdir -p /a/b; touch /a/b/c; ls /a/b; rm /a/b/c; ls /a/b; cd /a/b && pwd", Stdout: "c\n/a/b\n"},
}

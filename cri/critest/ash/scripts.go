package ash

// Script is a script and its expected result.
type Script struct {
	Text, Stdout, Stderr string
	Code                 int
}

// ScriptEnv and ScriptFiles are the environment that Scripts require. Scripts also require a
// read-only directory /ro.
var (
	ScriptEnv   = []string{"NAME=ada", "EMPTY="}
	ScriptFiles = map[string]string{"/etc/motd": "hello\nworld\n"}
)

// Scripts have the same results in this shell and in busybox's shell; only their texts on stderr
// may differ.
var Scripts = []Script{
	{Text: `echo a  b; echo 'a  b' "c $NAME" \$NAME`, Stdout: "a b\na  b c ada $NAME\n"},
	{Text: `echo "$NAME-${NAME}x ${NONE:-none} ${EMPTY:-empty} ${EMPTY-} ${#NAME} ${NAME%a} ${NAME#?}"`, Stdout: "ada-adax none empty  3 ad da\n"},
	{Text: "echo one >&2; echo two 1>&2; echo three 2>&1", Stdout: "three\n", Stderr: "one\ntwo\n"},
	{Text: "false || echo or; true && echo and; false && echo no; exit 3", Stdout: "or\nand\n", Code: 3},
	{Text: "false || false && echo no || echo yes", Stdout: "yes\n"},
	{Text: "nosuch; echo $?", Stdout: "127\n", Stderr: "sh: nosuch: not found\n"},
	{Text: "if [ $NAME = ada ]; then echo y; else echo n; fi; if false; then :; elif true; then echo elif; fi", Stdout: "y\nelif\n"},
	{Text: "i=0; while [ $i -lt 3 ]; do i=$((i+1)); echo $i; done", Stdout: "1\n2\n3\n"},
	{Text: "x=b; until [ $x = ada ]; do echo $x; x=$NAME; done; x='b c'; [ $x = ada ]; echo $?", Stdout: "b\n2\n", Stderr: "sh: b c = ada: unknown operand\n"},
	{Text: "echo hi > /tmp/f; echo ho >> /tmp/f; cat /tmp/f; test -e /tmp/f && [ ! -e /tmp/g ] && [ -d /tmp ]; echo $?", Stdout: "hi\nho\n0\n"},
	{Text: "cat /nope; echo $?", Stdout: "1\n", Stderr: "cat: can't open '/nope': No such file or directory\n"},
	{Text: "echo x > /ro/f; echo $?", Stdout: "1\n", Stderr: "sh: can't create /ro/f: Read-only file system\n"},
	{Text: "echo $(cat /etc/motd) `echo back`; x=$(exit 4); echo $?", Stdout: "hello world back\n4\n"},
	{Text: "cat /etc/motd | while read x; do echo [$x]; done; printf '%s-%3d\\n' a 1", Stdout: "[hello]\n[world]\na-  1\n"},
	{Text: "hostname; env | while read e; do [ $e = NAME=ada ] && echo $e; done; true", Stdout: "pod-name\nNAME=ada\n"},
	{Text: "! true; echo $?; ! false; echo $?; echo ${NONE?gone}; echo never", Stdout: "1\n0\n", Stderr: "sh: NONE: gone\n", Code: 2},
	{Text: "(exit 3); echo $?; { echo a; echo b; } > /tmp/g; cat /tmp/g", Stdout: "3\na\nb\n"},
	{Text: "(sleep 0.1; echo later; exit 6) & echo now; wait; echo done $?", Stdout: "now\nlater\ndone 0\n"},
	{Text: "echo a b c | while read x y; do echo \"$y\"; done", Stdout: "b c\n"},
	{Text: "sh -c 'echo $# $2 $0; sh -c \"exit 3\"; echo $? \"$@\"' x a 'b c'", Stdout: "2 b c x\n3 a b c\n"},
	{Text: "sh -c 'echo $0 $1' x y; exec echo gone; echo never", Stdout: "x y\ngone\n"},
	{Text: "while :; do echo y; done | { read a; read b; echo $a$b; }", Stdout: "yy\n"},
	{Text: "echo 'unfinished", Stderr: "sh: syntax error: 1:6: reached EOF without closing quote '\n", Code: 2},
	{Text: "if true; then echo", Stderr: "sh: syntax error: 1:1: if statement must end with \"fi\"\n", Code: 2},
	{Text: "# a comment\necho a # and one\n\necho b;\n", Stdout: "a\nb\n"},
	{Text: "[ 1 -eq 2 ]; echo $?; echo $((7/2*2%4)) $((3>2)) $(( (1+2)*3 ))", Stdout: "1\n2 1 9\n"},
	{Text: "mkdir /tmp/a; touch /tmp/a/c; ls /tmp/a; mkdir /tmp/a || cd /tmp/a && pwd", Stdout: "c\n/tmp/a\n", Stderr: "mkdir: can't create directory '/tmp/a': File exists\n"},
}

package script

import (
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/junit/junittest"
	"github.com/podrun/podrun/internal/workflow/workflowtest"
	"github.com/podrun/podrun/test/hostport"
)

// commands are the commands of scripts that this package adds to those of testscript.
var commands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"podrun":      podrun,
	"exits":       exits,
	"as":          as,
	"start":       start,
	"await":       await,
	"signal":      sendSignal,
	"finish":      finish,
	"until":       until,
	"fault":       fault,
	"awaitcall":   awaitCall,
	"jsonlines":   jsonLines,
	"junit":       junitReport,
	"workflow":    workflowCommands,
	"longbackoff": longBackOff,
	"calls":       calls,
	"rmimage":     removeImage,
	"sandboxid":   sandboxID,
	"saveimage":   saveImage,
	"saveoci":     saveOCI,
	"httpget":     httpGet,
	"listen":      listen,
	"jsonget":     jsonGet,
	"save":        save,
	"stable":      stable,
	"cgroup":      readGroup,
	"mounted":     mounted,
}

// want fails the script if a command has the wrong number of arguments, or if the script negates
// the command.
func want(ts *testscript.TestScript, neg bool, args []string, n int, usage string) {
	if neg || len(args) < n {
		ts.Fatalf("usage: %s", usage)
	}
}

// exits CODE COMMAND [ARG...] runs a command, and fails unless the command exits with CODE.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "exits CODE COMMAND [ARG...]")
	checkCode(ts, args[0], execute(ts, args[1], args[2:]))
}

func checkCode(ts *testscript.TestScript, want string, err error) {
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
		if w, ok := exit.Sys().(syscall.WaitStatus); ok && w.Signaled() {
			// If a signal terminates podrun before podrun handles signals, the code is 128 plus the
			// signal's number, as in a shell.
			if got = 128 + int(w.Signal()); w.Signal() == signals[want] {
				return
			}
		}
	} else if code, ok := errors.AsType[exitCode](err); ok {
		got = int(code)
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(got) != want {
		ts.Fatalf("exit code %d, want %s", got, want)
	}
}

// as UID CODE COMMAND [ARG...] is exits for a command that another user runs.
func as(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 3, "as UID CODE COMMAND [ARG...]")
	uid, err := strconv.ParseUint(args[0], 10, 32)
	ts.Check(err)
	c, err := commandOf(ts, args[2], args[3:])
	ts.Check(err)
	// Only the user that runs the tests can access these directories by default.
	ts.Check(os.Chmod(filepath.Dir(filepath.Dir(c.Path)), 0o711))
	ts.Check(os.Chmod(filepath.Dir(of(ts).work), 0o711))
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	c.Stdout, c.Stderr = ts.Stdout(), ts.Stderr()
	checkCode(ts, args[1], c.Run())
}

// commandOf returns a command with the script's directory and variables.
func commandOf(ts *testscript.TestScript, name string, args []string) (*exec.Cmd, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, err
	}
	c := exec.Command(path, args...)
	c.Dir = ts.MkAbs(".")
	c.Env = environment(ts)
	return c, nil
}

var faults = map[string]critest.When{"before": critest.Before, "after": critest.After, "hang": critest.Hang,
	"effecthang": critest.EffectThenHang, "slow": critest.Slow, "late": critest.Late}

// fault METHOD before|error|after|hang|effecthang|slow|late|none [TIMES [DELAY]] makes calls of the
// fake runtime fail. none removes the faults of the method. before simulates an outage, during
// which podrun may retry the call; error is an error of the call itself.
func fault(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "fault METHOD before|error|after|hang|effecthang|slow|late|none [TIMES [DELAY]]")
	s, f := of(ts), critest.Fault{}
	if args[1] == "none" {
		for _, clear := range s.faults[args[0]] {
			clear()
		}
		return
	}
	if args[1] == "error" {
		args[1], f.Err = "before", status.Error(codes.Internal, "fault injected")
	}
	var known bool
	if f.When, known = faults[args[1]]; !known || s.fake == nil {
		ts.Fatalf("no fault %s, or no fake", args[1])
	}
	var err error
	if len(args) > 2 {
		f.Times, err = strconv.Atoi(args[2])
		ts.Check(err)
	}
	if len(args) > 3 {
		f.Delay, err = time.ParseDuration(args[3])
		ts.Check(err)
	}
	s.faults[args[0]] = append(s.faults[args[0]], s.fake.Fault(args[0], f))
}

// calls [METHOD...] prints the calls of these methods to the fake runtime since the last use of
// calls. Without a method, it prints the calls that make changes.
func calls(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 0, "calls [METHOD...]")
	names := of(ts).fake.Changes()
	if len(args) > 0 {
		names = of(ts).fake.CallNames(args...)
	}
	of(ts).fake.ForgetCalls()
	// This clears the previous output, even if nothing is printed.
	ts.Stdout()
	for _, n := range names {
		fmt.Fprintln(ts.Stdout(), n)
	}
}

// awaitcall METHOD waits until podrun calls METHOD of the fake runtime.
func awaitCall(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 1, "awaitcall METHOD")
	if err := of(ts).until(func() bool { return len(of(ts).fake.CallNames(args[0])) > 0 }); err != nil {
		ts.Fatalf("%s was not called: %v", args[0], err)
	}
}

// rmimage IMAGE removes an image that an earlier run may have pulled.
func removeImage(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 1, "rmimage IMAGE")
	_, err := of(ts).client.Images.Service.RemoveImage(context.Background(), &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: args[0]}})
	ts.Check(err)
}

// sandboxid POD prints the ID of the pod's newest sandbox.
func sandboxID(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 1, "sandboxid POD")
	list, err := of(ts).client.Runtime.ListPodSandbox(context.Background(), &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{
		LabelSelector: map[string]string{"io.kubernetes.pod.namespace": ts.Getenv("NS"), "io.kubernetes.pod.name": args[0]}}})
	ts.Check(err)
	if len(list.Items) == 0 {
		ts.Fatalf("%s has no sandbox", args[0])
	}
	newest := slices.MaxFunc(list.Items, func(a, b *runtimeapi.PodSandbox) int { return cmp.Compare(a.CreatedAt, b.CreatedAt) })
	fmt.Fprintln(ts.Stdout(), newest.Id)
}

// httpget URL waits for a response and prints its body. ! httpget URL expects no response.
func httpGet(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, false, args, 1, "httpget URL")
	client := &http.Client{Timeout: 5 * time.Second}
	var resp *http.Response
	var err error
	_ = of(ts).until(func() bool {
		resp, err = client.Get(args[0])
		return err == nil || neg
	})
	if neg {
		if err == nil {
			resp.Body.Close()
			ts.Fatalf("%s answered %s", args[0], resp.Status)
		}
		return
	}
	ts.Check(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	ts.Check(err)
	fmt.Fprintf(ts.Stdout(), "%s", body)
}

// freePort returns a free port that no other test uses.
func freePort() (string, error) {
	port, err := hostport.Reserve()
	return strconv.Itoa(port), err
}

// listen ADDRESS http|grpc|silent listens on a TCP address, or on the path of a unix socket, until
// the script ends. An http server responds with the script's files, and with "hello" at /hook. A
// grpc server has no services. A silent server does not respond.
func listen(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "listen ADDRESS http|grpc|silent")
	network := "tcp"
	if strings.Contains(args[0], "/") {
		network = "unix"
	}
	l, err := net.Listen(network, args[0])
	ts.Check(err)
	switch args[1] {
	case "grpc":
		srv := grpc.NewServer()
		go srv.Serve(l)
		ts.Defer(srv.Stop)
		return
	case "http":
		mux := http.NewServeMux()
		mux.HandleFunc("/hook", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
		mux.Handle("/", http.FileServer(http.Dir(of(ts).work)))
		srv := &http.Server{Handler: mux}
		go srv.Serve(l)
		ts.Defer(func() { srv.Close() })
		return
	}
	go func() {
		var open []net.Conn
		for {
			c, err := l.Accept()
			if err != nil {
				break
			}
			open = append(open, c)
		}
		for _, c := range open {
			c.Close()
		}
	}()
	ts.Defer(func() { l.Close() })
}

// jsonget FILE PATH prints a value in a JSON file. An example of PATH is items.0.metadata.name.
func jsonGet(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "jsonget FILE PATH")
	var v any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &v))
	for _, part := range strings.Split(args[1], ".") {
		switch in := v.(type) {
		case map[string]any:
			v = in[strings.ReplaceAll(part, "|", ".")]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(in) {
				ts.Fatalf("%s: a list of %d has no %s", args[1], len(in), part)
			}
			v = in[i]
		default:
			v = nil
		}
	}
	if text, ok := v.(string); ok {
		fmt.Fprintln(ts.Stdout(), text)
		return
	}
	data, err := json.Marshal(v)
	ts.Check(err)
	fmt.Fprintln(ts.Stdout(), string(data))
}

// longbackoff increases the back-off of failed images to the value after many failures.
func longBackOff(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 0, "longbackoff")
	files, err := filepath.Glob(filepath.Join(ts.Getenv("PODRUN_ROOT_DIR"), "image-backoff", "*.json"))
	ts.Check(err)
	if len(files) == 0 {
		ts.Fatalf("no image backs off")
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		ts.Check(err)
		longer := regexp.MustCompile(`"delay":"[^"]*"`).ReplaceAll(data, []byte(`"delay":"5m0s"`))
		ts.Check(os.WriteFile(file, longer, 0o600))
	}
}

// jsonlines FILE prints the events, problems and errors in a file of JSON objects, one
// per line: type, reason, path, message, error.
func jsonLines(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 1, "jsonlines FILE")
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		var v struct{ Type, Reason, FieldPath, Field, Message, Error string }
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			ts.Fatalf("%v: %s", err, line)
		}
		fmt.Fprintln(ts.Stdout(), strings.Join(strings.Fields(strings.Join([]string{v.Type, v.Reason, v.FieldPath, v.Field, v.Message, v.Error}, " ")), " "))
	}
}

// junit FILE checks that the file is a test report, and prints each test case on a line: its class,
// name, outcome, type and message.
func junitReport(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 1, "junit FILE")
	data := []byte(ts.ReadFile(args[0]))
	ts.Check(junittest.Check(data))
	type outcome struct {
		XMLName xml.Name
		Type    string `xml:"type,attr"`
		Message string `xml:"message,attr"`
	}
	var report struct {
		Cases []struct {
			Class  string    `xml:"classname,attr"`
			Name   string    `xml:"name,attr"`
			Time   float64   `xml:"time,attr"`
			Others []outcome `xml:",any"`
		} `xml:"testsuite>testcase"`
	}
	ts.Check(xml.Unmarshal(data, &report))
	for _, c := range report.Cases {
		line := c.Class + " " + c.Name
		for _, o := range c.Others {
			if o.XMLName.Local != "system-out" {
				line += strings.TrimRight(fmt.Sprintf(" %s %s %s", o.XMLName.Local, o.Type, o.Message), " ")
			}
		}
		fmt.Fprintln(ts.Stdout(), line)
	}
}

// workflow FILE prints the workflow commands that GitHub's runner finds in a step's output.
func workflowCommands(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 1, "workflow FILE")
	commands, _ := workflowtest.Run(ts.ReadFile(args[0]))
	for _, c := range commands {
		fmt.Fprintln(ts.Stdout(), c)
	}
}

// save NAME sets a variable to the output of the last command.
func save(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 1, "save NAME")
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

// unstable are the values that differ between runs, with their replacements.
var unstable = []struct {
	pattern *regexp.Regexp
	word    string
}{
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "<id>"},
	{regexp.MustCompile(`\b[0-9a-f]{32}\b`), "<uid>"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`), "<time>"},
	{regexp.MustCompile(`\b(\d+m)?\d+(\.\d+)?(ms|µs|s)\b( \(\d+(\.\d+)?(ms|µs|s) including waiting\))?`), "<duration>"},
}

// stable FILE TO writes FILE to TO. It replaces values that differ between runs, and replaces the
// values of variables with the names of the variables.
func stable(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "stable FILE TO")
	text := ts.ReadFile(args[0])
	for _, name := range []string{"WORK", "HTTP_IMAGE", "IMAGE", "REGISTRY", "DOWN"} {
		text = strings.ReplaceAll(text, ts.Getenv(name), "<"+strings.ToLower(name)+">")
	}
	for _, u := range unstable {
		text = u.pattern.ReplaceAllString(text, u.word)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o644))
}

// cgroup FILE UID prints a file in the pod's cgroup, from the hierarchy that contains the file.
func readGroup(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "cgroup FILE UID")
	for _, dir := range of(ts).groups() {
		data, err := os.ReadFile(filepath.Join(dir, args[0]))
		// Dashes in a slice's name only separate its levels.
		name := filepath.Base(dir)
		if (strings.Contains(name, args[1]) || strings.Contains(name, strings.ReplaceAll(args[1], "-", "_"))) && err == nil {
			fmt.Fprintf(ts.Stdout(), "%s", data)
			return
		}
	}
	ts.Fatalf("no control group of %s has %s; groups: %s", args[1], args[0], strings.Join(of(ts).groups(), "\n"))
}

// mounted [PART] prints the mount points below the script's directory.
func mounted(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 0, "mounted")
	mounts, err := of(ts).mounts()
	ts.Check(err)
	slices.Sort(mounts)
	// This clears the previous output, even if nothing is mounted.
	ts.Stdout()
	for _, m := range mounts {
		fmt.Fprintln(ts.Stdout(), m)
	}
}

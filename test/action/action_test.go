// Package action tests the GitHub action (action.yml and its script, hack/action), and the commands of
// SECURITY.md that verify a release.
package action

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/podrun/podrun/internal/workflow/workflowtest"
	"github.com/podrun/podrun/test/inherited"
)

const version = "0.1.2"

// fakePodrun prints its arguments, and waits for a signal if one of them is wait.
const fakePodrun = `#!/usr/bin/env bash
printf '<%s>' "$@"
echo
for arg in "$@"; do
	case $arg in
	wait) trap 'echo interrupted; exit 130' INT; echo waiting; while :; do sleep 0.01; done ;;
	exit=*) exit "${arg#exit=}" ;;
	esac
done
`

// release writes a release to dir: an archive in the format of hack/release, and its checksums.
func release(t *testing.T, dir string) (digest string) {
	t.Helper()
	name := "podrun-bundle_" + version + "_linux_" + runtime.GOARCH
	var archive bytes.Buffer
	z := gzip.NewWriter(&archive)
	w := tar.NewWriter(z)
	for _, file := range []string{"README.md", "podrun"} {
		if err := w.WriteHeader(&tar.Header{Name: name + "/" + file, Mode: 0o755, Size: int64(len(fakePodrun))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(fakePodrun)); err != nil {
			t.Fatal(err)
		}
	}
	for _, close := range []func() error{w.Close, z.Close} {
		if err := close(); err != nil {
			t.Fatal(err)
		}
	}
	digest = fmt.Sprintf("%x", sha256.Sum256(archive.Bytes()))
	write(t, filepath.Join(dir, "v"+version, name+".tar.gz"), archive.String())
	write(t, filepath.Join(dir, "v"+version, "SHA256SUMS"), digest+"  "+name+".tar.gz\n"+strings.Repeat("0", 64)+"  other.tar.gz\n")
	return digest
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestMain(m *testing.M) {
	inherited.Reset()
	os.Exit(m.Run())
}

// step is one run of the action.
type step struct {
	*exec.Cmd
	out     bytes.Buffer
	outputs string // path of the file with the step's outputs
}

// newStep returns the step of action.yml as GitHub runs it. Inputs that are not in the map have
// their defaults.
func newStep(t *testing.T, checkout string, inputs map[string]string) *step {
	t.Helper()
	def := readAction(t)
	if len(def.Runs.Steps) != 1 {
		t.Fatalf("%d steps, want 1", len(def.Runs.Steps))
	}
	for name := range inputs {
		if _, ok := def.Inputs[name]; !ok && name != "ACTION_REF" {
			t.Fatalf("action.yml has no input %s", name)
		}
	}
	s := &step{Cmd: exec.Command("bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", def.Runs.Steps[0].Run), outputs: filepath.Join(t.TempDir(), "outputs")}
	s.Env = append(os.Environ(), "GITHUB_ACTION_PATH="+checkout, "GITHUB_OUTPUT="+s.outputs)
	if os.Geteuid() != 0 {
		// A user of a test machine may have no sudo. The step becomes root only to run podrun, which is a fake here.
		dir := t.TempDir()
		write(t, filepath.Join(dir, "sudo"), "#!/bin/sh\n[ \"$1 $2\" = '-E --' ] && shift 2 && exec \"$@\"\n")
		s.Env = append(s.Env, "PATH="+dir+":"+os.Getenv("PATH"))
	}
	for variable, value := range def.Runs.Steps[0].Env {
		value = regexp.MustCompile(`\$\{\{ (?:inputs|github)\.([a-z0-9_-]+) \}\}`).ReplaceAllStringFunc(value, func(expression string) string {
			name := strings.Fields(expression)[1]
			if input, ok := strings.CutPrefix(name, "inputs."); ok {
				if given, ok := inputs[input]; ok {
					return given
				}
				return strings.ReplaceAll(def.Inputs[input].Default, "${{ github.workspace }}", t.TempDir())
			}
			return inputs["ACTION_REF"]
		})
		s.Env = append(s.Env, variable+"="+value)
	}
	s.Stdout, s.Stderr = &s.out, &s.out
	s.WaitDelay = 10 * time.Second
	return s
}

// end returns the outputs of the step by name.
func (s *step) end(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile(s.outputs)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		out[name] = value
	}
	if fmt.Sprint(s.ProcessState.ExitCode()) != out["exit-code"] {
		t.Errorf("exit code %d, but the output is %q", s.ProcessState.ExitCode(), out["exit-code"])
	}
	return out
}

type definition struct {
	Inputs map[string]struct {
		Description, Default string
	}
	Outputs map[string]struct{ Description, Value string }
	Runs    struct {
		Using string
		Steps []struct {
			ID, Shell, Run string
			Env            map[string]string
		}
	}
}

func readAction(t *testing.T) (def definition) {
	t.Helper()
	data, err := os.ReadFile("../../action.yml")
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		definition
		Name, Description string
	}
	if err := yaml.UnmarshalStrict(data, &all); err != nil {
		t.Fatal(err)
	}
	return all.definition
}

// TestDefinition checks that the step passes every input to the script, and sets every output.
func TestDefinition(t *testing.T) {
	def := readAction(t)
	step := def.Runs.Steps[0]
	if def.Runs.Using != "composite" || step.Shell != "bash" {
		t.Errorf("using %s, shell %s", def.Runs.Using, step.Shell)
	}
	for name, input := range def.Inputs {
		variable := "INPUT_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		if want := "${{ inputs." + name + " }}"; step.Env[variable] != want || input.Description == "" {
			t.Errorf("%s is %q, want %s", variable, step.Env[variable], want)
		}
	}
	for name, output := range def.Outputs {
		if want := "${{ steps." + step.ID + ".outputs." + name + " }}"; output.Value != want || output.Description == "" {
			t.Errorf("output %s is %q, want %s", name, output.Value, want)
		}
	}
	if strings.Contains(step.Run, "${{") {
		t.Errorf("an expression in %q would allow an input to run commands", step.Run)
	}
}

func checkout(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestAction(t *testing.T) {
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("podrun does not support " + runtime.GOARCH)
	}
	releases := t.TempDir()
	digest := release(t, releases)
	plain := httptest.NewServer(http.FileServer(http.Dir(releases)))
	defer plain.Close()
	files := http.NewServeMux()
	files.Handle("/", http.FileServer(http.Dir(releases)))
	files.Handle("/redirected/", http.RedirectHandler(plain.URL+"/v"+version+"/SHA256SUMS", http.StatusFound))
	server := httptest.NewTLSServer(files)
	defer server.Close()
	certificate := filepath.Join(t.TempDir(), "ca.pem")
	write(t, certificate, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	wrong := t.TempDir()
	release(t, wrong)
	write(t, filepath.Join(wrong, "v"+version, "SHA256SUMS"), strings.Repeat("0", 64)+"  podrun-bundle_"+version+"_linux_"+runtime.GOARCH+".tar.gz\n")
	missing := t.TempDir()
	release(t, missing)
	write(t, filepath.Join(missing, "v"+version, "SHA256SUMS"), digest+"  other.tar.gz\n")
	installed := filepath.Join(t.TempDir(), "bin")
	own := filepath.Join(t.TempDir(), "own podrun")
	write(t, own, fakePodrun)
	for name, c := range map[string]struct {
		inputs map[string]string
		code   int
		// a pattern for a line of the output
		want string
		path string
	}{
		"run":           {map[string]string{"version": version, "file": "a.yaml 'b c.yaml'", "args": "--timeout 10m\n--env 'A=$(x) y' \"\""}, 0, `<run><-o><github><a.yaml><b c.yaml><--timeout><10m><--env><A=\$\(x\) y><>`, installed + "/podrun"},
		"v":             {map[string]string{"version": "v" + version, "file": "a.yaml"}, 0, `<run><-o><github><a.yaml>`, installed + "/podrun"},
		"reference":     {map[string]string{"ACTION_REF": "v" + version, "file": "a.yaml"}, 0, `<run><-o><github><a.yaml>`, installed + "/podrun"},
		"no reference":  {map[string]string{"ACTION_REF": "main", "file": "a.yaml"}, 120, `::error title=podrun::version '' is not a version of podrun: .*`, ""},
		"file URL":      {map[string]string{"version": version, "file": "a.yaml", "release-url": "file://" + releases + "/"}, 0, `<run><-o><github><a.yaml>`, installed + "/podrun"},
		"report":        {map[string]string{"version": version, "file": "a.yaml", "junit": "out/r 1.xml"}, 0, `<run><-o><github><-o><junit=out/r 1.xml><a.yaml>`, installed + "/podrun"},
		"exit code":     {map[string]string{"version": version, "args": "exit=123"}, 123, `<run><-o><github><exit=123>`, installed + "/podrun"},
		"install only":  {map[string]string{"version": version, "junit": "r.xml", "file": " \n"}, 0, ``, installed + "/podrun"},
		"path":          {map[string]string{"path": own, "file": "a.yaml"}, 0, `<run><-o><github><a.yaml>`, own},
		"digest":        {map[string]string{"version": version, "file": "a.yaml", "sha256": strings.ToUpper(digest), "release-url": "file://" + wrong}, 0, `<run><-o><github><a.yaml>`, installed + "/podrun"},
		"not a path":    {map[string]string{"path": "none/podrun"}, 120, `::error title=podrun::path none/podrun is not an executable file`, ""},
		"bad version":   {map[string]string{"version": "../1%\nx"}, 120, `::error title=podrun::version '../1%25%0Ax' is not a version of podrun: .*`, ""},
		"no directory":  {map[string]string{"working-directory": "none"}, 120, `::error title=podrun::working-directory none is not a directory`, ""},
		"quotes":        {map[string]string{"path": own, "args": "'a"}, 120, `::error title=podrun::'a: the quotes are not balanced`, own},
		"no release":    {map[string]string{"version": "9.9.9"}, 125, `::error title=podrun::download https://.*/v9.9.9/SHA256SUMS: .*404.*`, ""},
		"http":          {map[string]string{"version": version, "release-url": plain.URL}, 120, `::error title=podrun::release-url http://.* is not an https or file URL`, ""},
		"http, as file": {map[string]string{"version": version, "release-url": "file://x/../" + plain.URL}, 125, `::error title=podrun::download file://.*`, ""},
		"to http":       {map[string]string{"version": version, "release-url": server.URL + "/redirected"}, 125, `::error title=podrun::download https://.*/redirected/v` + version + `/SHA256SUMS: .*[Pp]rotocol.*`, ""},
		"wrong archive": {map[string]string{"version": version, "release-url": "file://" + wrong}, 125, `::error title=podrun::file://.* has the digest ` + digest + `, not 0{64}: it is not installed`, ""},
		"wrong digest":  {map[string]string{"version": version, "sha256": strings.Repeat("1", 64)}, 125, `::error title=podrun::.* has the digest ` + digest + `, not 1{64}: it is not installed`, ""},
		"no digest":     {map[string]string{"version": version, "release-url": "file://" + missing}, 125, `::error title=podrun::file://.*/SHA256SUMS has no digest of podrun-bundle_.*`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.RemoveAll(installed); err != nil {
				t.Fatal(err)
			}
			inputs := map[string]string{"release-url": server.URL, "install-dir": installed}
			for name, value := range c.inputs {
				inputs[name] = value
			}
			s := newStep(t, checkout(t), inputs)
			s.Env = append(s.Env, "CURL_CA_BUNDLE="+certificate)
			err := s.Run()
			outputs := s.end(t)
			if s.ProcessState.ExitCode() != c.code || outputs["path"] != c.path || !regexp.MustCompile(`^`+c.want+`\n?$`).MatchString(s.out.String()) {
				t.Errorf("%v, outputs %v, printed:\n%s\nwant code %d, path %s, output %s", err, outputs, s.out.String(), c.code, c.path, c.want)
			}
			if commands, _ := workflowtest.Run(s.out.String()); (c.code >= 120 && c.code != 123) != (len(commands) == 1) {
				t.Errorf("workflow commands: %q", commands)
			}
			if _, err := os.Stat(filepath.Join(installed, "podrun")); (err == nil) != (c.path == installed+"/podrun") {
				t.Errorf("installed: %v", err)
			}
		})
	}
}

// TestCancel covers a signal that the runner sends only to the step's process. podrun must
// receive it, and the step must wait for podrun.
func TestCancel(t *testing.T) {
	own := filepath.Join(t.TempDir(), "podrun")
	write(t, own, fakePodrun)
	s := newStep(t, checkout(t), map[string]string{"path": own, "args": "wait"})
	read, printed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	s.Stdout = printed
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	printed.Close()
	buffer := make([]byte, 1<<10)
	for text := ""; !strings.Contains(text, "interrupted"); {
		n, err := read.Read(buffer)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if text += string(buffer[:n]); strings.HasSuffix(text, "waiting\n") {
			if err := s.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = s.Wait() // the test checks the exit code
	if outputs := s.end(t); outputs["exit-code"] != "130" {
		t.Errorf("outputs %v", outputs)
	}
}

// TestSignature checks that the signature of SHA256SUMS must be valid if allowed_signers contains a
// key.
func TestSignature(t *testing.T) {
	releases, signed := t.TempDir(), t.TempDir()
	release(t, releases)
	for _, name := range []string{"hack/action"} {
		data, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(signed, name), string(data))
	}
	key := filepath.Join(t.TempDir(), "key")
	keygen := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ssh-keygen", args...).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen %v: %v\n%s", args, err, out)
		}
	}
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("ssh-keygen is not installed")
	}
	keygen("-q", "-t", "ed25519", "-N", "", "-f", key)
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(signed, "allowed_signers"), "# keys\n\nrelease@podrun.dev namespaces=\"file\" "+string(public))
	sums := filepath.Join(releases, "v"+version, "SHA256SUMS")
	for _, c := range []struct {
		name    string
		prepare func()
		code    int
		want    string
	}{
		{"not signed", func() {}, 125, "::error title=podrun::download .*SHA256SUMS.sig: "},
		{"signed", func() { keygen("-q", "-Y", "sign", "-n", "file", "-f", key, sums) }, 0, "<run>"},
		{"changed", func() { write(t, sums, "x\n") }, 125, "::error title=podrun::.*/SHA256SUMS: the signature is not valid: "},
	} {
		c.prepare()
		s := newStep(t, signed, map[string]string{"version": version, "file": "a.yaml", "release-url": "file://" + releases, "install-dir": t.TempDir()})
		_ = s.Run() // the test checks the exit code
		s.end(t)
		if s.ProcessState.ExitCode() != c.code || !regexp.MustCompile(c.want).MatchString(s.out.String()) {
			t.Errorf("%s: code %d, want %d:\n%s", c.name, s.ProcessState.ExitCode(), c.code, s.out.String())
		}
	}
}

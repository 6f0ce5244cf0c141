package inside

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/podrun/podrun/cmd/grammar"
)

// TestDebugProfiles compares with the result of k8s.io/kubectl v0.36.3
// (pkg/cmd/debug/profiles.go) for an ephemeral container. It does not call that package,
// because the package needs modules that go.mod does not have.
func TestDebugProfiles(t *testing.T) {
	want := map[string]string{
		"general":    `{"capabilities":{"add":["SYS_PTRACE"]}}`,
		"baseline":   `null`,
		"restricted": `{"capabilities":{"drop":["ALL"]},"runAsNonRoot":true,"allowPrivilegeEscalation":false,"seccompProfile":{"type":"RuntimeDefault"}}`,
		"netadmin":   `{"capabilities":{"add":["NET_ADMIN","NET_RAW"]}}`,
		"sysadmin":   `{"privileged":true}`,
	}
	for _, name := range grammar.DebugProfiles {
		context, err := grammar.DebugProfile(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(context)
		if err != nil || string(got) != want[name] {
			t.Errorf("%s: %s, %v; want %s", name, got, err, want[name])
		}
	}
	if _, err := grammar.DebugProfile("legacy"); err == nil || !strings.Contains(err.Error(), "not one of general") {
		t.Errorf("legacy: %v", err)
	}
}

// TestDebugContainer checks the container that the flags describe.
func TestDebugContainer(t *testing.T) {
	f := debugFlags{container: "d", image: "i", target: "app", policy: "Never", profile: "baseline", env: map[string]string{"B": "2", "A": "1"}}
	for _, c := range []struct {
		change func(*debugFlags)
		want   string
	}{
		{func(*debugFlags) {}, `{"name":"d","image":"i","command":["ls","/"],"env":[{"name":"A","value":"1"},{"name":"B","value":"2"}],"resources":{},"imagePullPolicy":"Never","targetContainerName":"app"}`},
		{func(f *debugFlags) { f.argumentsOnly, f.env = true, nil }, `{"name":"d","image":"i","args":["ls","/"],"resources":{},"imagePullPolicy":"Never","targetContainerName":"app"}`},
		{func(f *debugFlags) { f.stdin, f.env, f.policy = true, nil, "" }, `{"name":"d","image":"i","command":["ls","/"],"resources":{},"stdin":true,"stdinOnce":true,"targetContainerName":"app"}`},
		{func(f *debugFlags) { f.stdin, f.tty, f.env, f.target = true, true, nil, "" }, `{"name":"d","image":"i","command":["ls","/"],"resources":{},"imagePullPolicy":"Never","stdin":true,"tty":true}`},
	} {
		f := f
		c.change(&f)
		container, err := f.ephemeral([]string{"ls", "/"})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(container); err != nil || string(got) != c.want {
			t.Errorf("got  %s, %v\nwant %s", got, err, c.want)
		}
	}
}

package system

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/host/doctor"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
)

// TestD4Doctor covers text from other processes and manifests in the report of doctor: see
// cli.TestD4NothingSteersTheTerminal.
func TestD4Doctor(t *testing.T) {
	const hostile = "a\x1b]0;title\x07b\rc\npodrun: forged\n\x1b[2Jd\u009b31me\x7ff\x9bg\bh\ti"
	var out bytes.Buffer
	a := cli.New(cli.Streams{Out: &out, Err: &out})
	err := printDiagnosis(a.Streams.Out, view.Screen{}, run.Diagnosis{
		Findings: []doctor.Finding{{Group: "g", Check: "c", Status: doctor.Fail, Summary: hostile, Fix: hostile}},
		Pods:     []run.PodVerdict{{Pod: "default/web", Problems: problem.List{{Object: "Pod default/web", Message: "port 80 is held by " + hostile, Hint: hostile}}}},
	}, false)
	if err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if strings.ContainsFunc(text, view.ControlsTerminal) || !utf8.ValidString(text) {
		t.Errorf("%q", text)
	}
	if n := strings.Count(text, "forged"); n != 4 {
		t.Errorf("the report contains %d of 4 texts: %q", n, text)
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, "forged") && !strings.HasPrefix(line, "        ") && !strings.Contains(line, `\n`) {
			t.Errorf("a line looks like one of podrun's: %q", line)
		}
	}
}

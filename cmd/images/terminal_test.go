package images

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/run/imagestore"
)

// TestD4Images covers names of images, which a registry or an archive chooses: see cli.TestD4NothingSteersTheTerminal.
func TestD4Images(t *testing.T) {
	const hostile = "a\x1b]0;title\x07b\rc\npodrun: forged\n\x1b[2Jd\u009b31me\x7ff\x9bg\bh\ti"
	var out bytes.Buffer
	images := []imagestore.Image{{ID: hostile, Names: []string{hostile}}}
	if err := printImages(cli.New(cli.Streams{Out: &out, Err: &out}), images, &imageListFlags{}); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if !strings.Contains(text, "forged") || strings.ContainsFunc(text, view.ControlsTerminal) || !utf8.ValidString(text) {
		t.Errorf("%q", text)
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, "forged") && !strings.Contains(line, `\n`) {
			t.Errorf("a line looks like one of podrun's: %q", line)
		}
	}
}

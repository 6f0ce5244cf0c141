package view

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// hostile has everything that a terminal would interpret: a title by OSC and BEL, a carriage
// return, a line that imitates podrun's, CSI as ESC [ and as U+009B, DEL, a byte that is CSI in
// Latin-1, a backspace.
const hostile = "a\x1b]0;title\x07b\rc\npodrun: forged\n\x1b[2Jd\u009b31me\x7ff\x9bg\bh\ti"

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"plain, ünïcödé 漢字 🙂\n\tline": "plain, ünïcödé 漢字 🙂\n\tline",
		"\x1b[31m":                    "^[[31m",
		"a\rb":                        `a\rb`,
		"\x00\x07\b\x0b":              `\x00\x07\x08\x0b`,
		"\x7f\u0080\u009b":            `\x7f\u0080\u009b`,
		"\x9b31m \xff\xc3":            `\x9b31m \xff\xc3`,
		"\ufffd":                      "\ufffd",
		"\u202e":                      "\u202e", // as in kubectl
	} {
		if got := Escape(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
		if got := Escape(Escape(in)); got != want {
			t.Errorf("%q: escaping it twice results in %q", in, got)
		}
	}
	if got := OneLine("a\nb\tc\x1b"); got != `a\nb\tc^[` {
		t.Errorf("%q", got)
	}
}

// TestDataKeepsItsValue checks the escapes of JSON and YAML, which are lossless. A DEL in a
// termination message once made 'get -o yaml' fail.
func TestDataKeepsItsValue(t *testing.T) {
	in := strings.ToValidUTF8(hostile, "?") + "\u2028\u0085ü\ufeff\ufffe\uffff"
	for _, format := range []string{"json", "yaml"} {
		var out bytes.Buffer
		if err := PrintData(&out, format, map[string]string{"message": in}); err != nil {
			t.Fatal(err)
		}
		data := out.Bytes()
		var back map[string]string
		var err error
		if format == "yaml" {
			err = yaml.Unmarshal(data, &back)
		} else {
			err = json.Unmarshal(data, &back)
		}
		if err != nil || back["message"] != in {
			t.Errorf("%s: %q (%v), want %q\n%s", format, back["message"], err, in, data)
		}
	}
}

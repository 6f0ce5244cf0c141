package junit_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podrun/podrun/internal/junit"
	"github.com/podrun/podrun/internal/junit/junittest"
)

var update = flag.Bool("update", false, "write testdata/report.xml")

// report contains every outcome, and texts that XML does not allow.
var report = junit.Report{
	Name: "podrun run", Time: 3250 * time.Millisecond,
	Suites: []junit.Suite{
		{Name: "default/test-x2f4k", Host: "runner", Began: time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600)), Time: 3250 * time.Millisecond,
			Properties: []junit.Property{{"pod", "default/test-x2f4k"}, {"empty", ""}},
			Cases: []junit.Case{
				{Class: "default.test", Name: "prepare", Time: 12345 * time.Microsecond, Outcome: junit.Passed, Output: "done\n"},
				{Class: "default.test", Name: "test", Time: -time.Second, Outcome: junit.Failed, Type: "Error", Message: `exited with 3 (Error): <"&>`, Details: "a\n]]>\nb",
					Output: "\x1b[1;31mred\x1b[0m \x00\x08\x1b]0;title\x07 \xff\xfe ]]> <system-out>&amp;</system-out>\r\nlast \ufffe\ud7ff\U0010ffff line"},
				{Class: "default.test", Name: "web", Outcome: junit.Errored, Type: "Image", Message: "line 1\nline 2"},
				{Class: "default.test", Name: "late", Outcome: junit.Skipped, Message: "not started"},
			}},
		{Name: "empty", Began: time.Unix(0, 0)},
	},
}

func TestMarshal(t *testing.T) {
	got, err := report.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := junittest.Check(got); err != nil {
		t.Error(err)
	}
	file := filepath.Join("testdata", "report.xml")
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("the report differs from %s, which -update writes:\n%s", file, got)
	}
}

func TestAnyOutputIsValidXML(t *testing.T) {
	var all strings.Builder
	for r := rune(0); r <= 0x10ffff; r += 1 + r/64 {
		all.WriteRune(r)
	}
	for b := range 256 {
		all.WriteByte(byte(b))
	}
	for _, text := range []string{all.String(), "]]>", "]]", "]]]]>>", "<![CDATA[x]]>", "\x1b[", "\r", "\xed\xa0\x80"} {
		got, err := junit.Report{Suites: []junit.Suite{{Name: text, Host: text, Properties: []junit.Property{{text, text}}, Cases: []junit.Case{
			{Class: text, Name: text, Outcome: junit.Failed, Type: text, Message: text, Details: text, Output: text}}}}}.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if err := junittest.Check(got); err != nil {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

func TestCheckBites(t *testing.T) {
	valid, err := report.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ old, new string }{
		"unknown element":            {"<properties>", "<extra/><properties>"},
		"unknown attribute":          {`hostname="runner"`, `host="runner"`},
		"missing attribute":          {` failures="1" errors="1" skipped="1"`, ` errors="1" skipped="1"`},
		"child of another element":   {"<properties>", "<failure/><properties>"},
		"text between elements":      {"<properties>", "text<properties>"},
		"time with a unit":           {`time="3.250"`, `time="3.250s"`},
		"time with four decimals":    {`time="3.250"`, `time="3.2500"`},
		"count of tests":             {`tests="4" failures="1" errors="1" skipped="1"`, `tests="5" failures="1" errors="1" skipped="1"`},
		"illegal character":          {"not started", "not \x01 started"},
		"two roots":                  {"</testsuites>", "</testsuites><testsuites/>"},
		"attribute of a test case":   {`name="late"`, `name="late" file="x"`},
		"properties of a test suite": {`<property name="empty" value="">`, `<property name="empty">`},
	} {
		changed := strings.Replace(string(valid), c.old, c.new, 1)
		if changed == string(valid) {
			t.Errorf("%s: the report lacks %q", name, c.old)
		} else if junittest.Check([]byte(changed)) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

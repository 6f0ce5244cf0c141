// Package junit writes test reports in the XML format that CI servers read. The format has no
// standard. This package writes reports according to the part of the schema of Jenkins' xUnit
// plugin (junit-10.xsd) that GitLab and other servers also read.
package junit

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Report is a test report.
type Report struct {
	Name   string
	Time   time.Duration
	Suites []Suite
}

// Suite is a set of test cases.
type Suite struct {
	Name       string
	Host       string // name of the host
	Began      time.Time
	Time       time.Duration
	Properties []Property
	Cases      []Case
}

// Property is a property of a suite: a name and a value.
type Property struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

// Outcome is the outcome of a test case.
type Outcome string

// These are the outcomes. Failed means that the test failed. Errored means that the test had no
// result.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failed"
	Errored Outcome = "errored"
	Skipped Outcome = "skipped"
)

// Case is a test case. Output may contain any bytes.
type Case struct {
	Class, Name string
	Time        time.Duration
	Outcome     Outcome
	// Type is a word in CamelCase, Message is one line, and Details is a text of any length. All
	// are empty if the case passed.
	Type, Message, Details string
	Output                 string
}

// suites, suite and testCase are the elements of the file.
type suites struct {
	XMLName  xml.Name `xml:"testsuites"`
	Name     string   `xml:"name,attr"`
	Tests    int      `xml:"tests,attr"`
	Failures int      `xml:"failures,attr"`
	Errors   int      `xml:"errors,attr"`
	Time     string   `xml:"time,attr"`
	Suites   []suite
}

type suite struct {
	XMLName    xml.Name    `xml:"testsuite"`
	Name       string      `xml:"name,attr"`
	Tests      int         `xml:"tests,attr"`
	Failures   int         `xml:"failures,attr"`
	Errors     int         `xml:"errors,attr"`
	Skipped    int         `xml:"skipped,attr"`
	Time       string      `xml:"time,attr"`
	Timestamp  string      `xml:"timestamp,attr"`
	Host       string      `xml:"hostname,attr,omitempty"`
	Properties *properties `xml:"properties"`
	Cases      []testCase
}

type properties struct {
	List []Property `xml:"property"`
}

type testCase struct {
	XMLName xml.Name `xml:"testcase"`
	Class   string   `xml:"classname,attr"`
	Name    string   `xml:"name,attr"`
	Time    string   `xml:"time,attr"`
	Failure *result  `xml:"failure"`
	Error   *result  `xml:"error"`
	Skipped *result  `xml:"skipped"`
	Output  *text    `xml:"system-out"`
}

type result struct {
	Type    string `xml:"type,attr,omitempty"`
	Message string `xml:"message,attr"`
	Details string `xml:",cdata"`
}

type text struct {
	Text string `xml:",cdata"`
}

// Marshal returns the report as an XML document.
func (r Report) Marshal() ([]byte, error) {
	out := suites{Name: printable(r.Name), Time: seconds(r.Time)}
	for _, s := range r.Suites {
		one := s.element()
		out.Suites = append(out.Suites, one)
		out.Tests += one.Tests
		out.Failures += one.Failures
		out.Errors += one.Errors
	}
	var b bytes.Buffer
	b.WriteString(xml.Header)
	e := xml.NewEncoder(&b)
	e.Indent("", "  ")
	if err := e.Encode(out); err != nil {
		return nil, fmt.Errorf("encode the report: %w", err)
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

func (s Suite) element() suite {
	out := suite{Name: printable(s.Name), Tests: len(s.Cases), Time: seconds(s.Time),
		Timestamp: s.Began.UTC().Format("2006-01-02T15:04:05"), Host: printable(s.Host)}
	if len(s.Properties) > 0 {
		out.Properties = &properties{}
		for _, p := range s.Properties {
			out.Properties.List = append(out.Properties.List, Property{printable(p.Name), printable(p.Value)})
		}
	}
	for _, c := range s.Cases {
		switch c.Outcome {
		case Failed:
			out.Failures++
		case Errored:
			out.Errors++
		case Skipped:
			out.Skipped++
		}
		out.Cases = append(out.Cases, c.element())
	}
	return out
}

func (c Case) element() testCase {
	out := testCase{Class: printable(c.Class), Name: printable(c.Name), Time: seconds(c.Time)}
	why := &result{Type: printable(c.Type), Message: printable(c.Message), Details: printable(c.Details)}
	switch c.Outcome {
	case Failed:
		out.Failure = why
	case Errored:
		out.Error = why
	case Skipped:
		out.Skipped = why
	}
	if c.Output != "" {
		out.Output = &text{printable(c.Output)}
	}
	return out
}

// seconds formats a duration in the form that the schema requires: seconds with three decimals. A
// negative duration counts as 0: if the runtime's clock differs from podrun's, a short duration may
// be negative.
func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", max(d, 0).Seconds()) }

// colors matches the escape sequences of ECMA-48 with which programs color their output.
var colors = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("\x1b\\[[0-9;:?]*[ -/]*[@-~]") })

// printable returns a text without colors, and without the characters that XML 1.0 excludes even
// as references. Bytes that are not UTF-8 become U+FFFD.
func printable(s string) string {
	s = strings.ToValidUTF8(colors().ReplaceAllLiteralString(s, ""), "\ufffd")
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r == '\r' || r >= 0x20 && r < 0xfffe || r >= 0x10000 {
			return r
		}
		return -1
	}, s)
}

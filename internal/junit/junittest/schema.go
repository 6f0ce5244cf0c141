// Package junittest checks test reports against the schema of Jenkins' xUnit plugin. It is for
// tests.
package junittest

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// element describes the content of an element that junit-10.xsd allows: its attributes (true for a
// required one), its children (in any order and number), and whether it may contain text. All
// attributes are strings, except time in suites.
type element struct {
	attributes map[string]bool
	children   []string
	text       bool
}

var outcome = element{attributes: map[string]bool{"type": false, "message": false}, text: true}

// schema contains the elements of junit-10.xsd that podrun writes. It omits the elements for repeated
// tests.
var schema = map[string]element{
	"testsuites": {attributes: map[string]bool{"name": false, "time": false, "tests": false, "failures": false, "errors": false}, children: []string{"testsuite"}},
	"testsuite": {attributes: map[string]bool{"name": true, "tests": true, "failures": true, "errors": true, "group": false, "time": false, "skipped": false,
		"timestamp": false, "hostname": false, "id": false, "package": false, "file": false, "log": false, "url": false, "version": false},
		children: []string{"testsuite", "properties", "testcase", "system-out", "system-err"}},
	"properties": {children: []string{"property"}},
	"property":   {attributes: map[string]bool{"name": true, "value": true}},
	"testcase": {attributes: map[string]bool{"name": true, "time": false, "classname": false, "group": false},
		children: []string{"skipped", "error", "failure", "system-out", "system-err"}},
	"skipped": outcome, "error": outcome, "failure": outcome,
	"system-out": {text: true}, "system-err": {text: true},
}

// surefireTime is the pattern of junit-10.xsd for the time of a suite.
var surefireTime = regexp.MustCompile(`^(([0-9]{0,3},)*[0-9]{3}|[0-9]{0,3})*(\.[0-9]{0,3})?$`)

// Check returns an error if a document does not conform to the part of junit-10.xsd that schema
// describes. It also returns an error if a suite's number of tests is wrong.
func Check(document []byte) error {
	d := xml.NewDecoder(bytes.NewReader(document))
	var path []string
	// The number of tests that have not been read yet, for each open testsuite element.
	var tests []int
	for roots := 0; ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) && roots == 1 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("XML: %w", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			parent := ""
			if len(path) > 0 {
				parent = path[len(path)-1]
			} else if roots++; roots > 1 {
				return errors.New("the document has several roots")
			}
			if err := checkStart(parent, token); err != nil {
				return err
			}
			path = append(path, token.Name.Local)
			switch token.Name.Local {
			case "testsuite":
				n, err := strconv.Atoi(attribute(token, "tests"))
				if err != nil {
					return err
				}
				tests = append(tests, n)
			case "testcase":
				tests[len(tests)-1]--
			}
		case xml.EndElement:
			path = path[:len(path)-1]
			if token.Name.Local != "testsuite" {
				continue
			}
			if tests[len(tests)-1] != 0 {
				return fmt.Errorf("testsuite: the number of tests is wrong by %d", tests[len(tests)-1])
			}
			tests = tests[:len(tests)-1]
		case xml.CharData:
			if strings.TrimSpace(string(token)) != "" && !schema[path[len(path)-1]].text {
				return fmt.Errorf("%s: text %q is not allowed", strings.Join(path, "/"), token)
			}
		}
	}
}

func checkStart(parent string, e xml.StartElement) error {
	name := e.Name.Local
	def, known := schema[name]
	if !known || parent != "" && !slices.Contains(schema[parent].children, name) || parent == "" && name != "testsuites" && name != "testsuite" {
		return fmt.Errorf("%s: element %s is not allowed", parent, name)
	}
	for _, a := range e.Attr {
		if _, known := def.attributes[a.Name.Local]; !known {
			return fmt.Errorf("%s: attribute %s is not allowed", name, a.Name.Local)
		}
		if a.Name.Local == "time" && name != "testcase" && !surefireTime.MatchString(a.Value) {
			return fmt.Errorf("%s: time %q is not of the form 1.234", name, a.Value)
		}
	}
	for want, required := range def.attributes {
		if required && !slices.ContainsFunc(e.Attr, func(a xml.Attr) bool { return a.Name.Local == want }) {
			return fmt.Errorf("%s: attribute %s is missing", name, want)
		}
	}
	return nil
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

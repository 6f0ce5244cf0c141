package gotemplate

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"text/template"

	"k8s.io/apimachinery/pkg/util/json"
)

const object = `{
  "metadata": {"name": "web", "labels": {"b": "2", "a": "1"}},
  "items": [{"name": "x", "n": 3, "f": 1.5, "on": true}, {"name": "y", "n": 30, "on": false}, {"name": "<z>"}],
  "empty": [], "none": null, "zero": 0, "data": "aGk="
}`

func read(t *testing.T) any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(object), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func execute(text string, data any, strict bool) (string, error) {
	p, err := Parse(text)
	if err != nil {
		return "", err
	}
	p.MissingIsError = strict
	var out bytes.Buffer
	err = p.Execute(&out, data)
	return out.String(), err
}

// TestAsTextTemplate compares the output with that of text/template.
func TestAsTextTemplate(t *testing.T) {
	data := read(t)
	for _, text := range []string{
		``, `plain`, `{{.metadata.name}}`, `{{ $.metadata.name }}`, `{{.missing}}`, `{{.missing.deep}}`, `{{.none}}`,
		`{{range .items}}{{.name}} {{end}}`,
		`{{range $i, $e := .items}}{{$i}}={{$e.name}},{{$.metadata.name}};{{end}}`,
		`{{range $k, $v := .metadata.labels}}{{$k}}={{$v}} {{end}}`,
		`{{range $e := .items}}{{$e.n}} {{end}}`,
		`{{range .empty}}x{{else}}nothing{{end}}`, `{{range .none}}x{{else}}nothing{{end}}`, `{{range .missing}}x{{else}}nothing{{end}}`,
		`{{range .items}}{{if eq .name "y"}}{{break}}{{end}}{{.name}}{{end}}`,
		`{{range .items}}{{if eq .name "y"}}{{continue}}{{end}}{{.name}}{{end}}`,
		`{{if .zero}}a{{else if .items}}b{{else}}c{{end}}`, `{{with .metadata}}{{.name}}{{end}}`, `{{with .none}}a{{else}}b{{end}}`,
		`{{with $x := .metadata}}{{$x.name}}{{end}}`,
		`{{$x := 1}}{{if true}}{{$x = 2}}{{end}}{{$x}}`, `{{$x := 1}}{{if true}}{{$x := 2}}{{$x}}{{end}}{{$x}}`,
		`{{index .items 0}}`, `{{index .items 0 "name"}}`, `{{(index .items 1).name}}`, `{{index .metadata.labels "a"}}`, `{{index .metadata "labels" "none"}}`,
		`{{len .items}} {{len .metadata.name}} {{len .metadata}}`, `{{slice .metadata.name 1}} {{slice .metadata.name 1 2}}`,
		`{{printf "%s-%d-%v" .metadata.name 3 .zero}}`, `{{.metadata.name | printf "%-6s|"}}`, `{{print 1 2 "a"}}`, `{{println "a"}}`,
		`{{html "<a>"}} {{urlquery "a b"}}`, `{{.metadata}}`, `{{.items}}`,
		`{{eq 1 1}} {{eq "a" "b" "a"}} {{ne 1 2}} {{lt 1 2}} {{le 2 2}} {{gt "b" "a"}} {{ge 1 2}}`,
		`{{and .metadata .zero}} {{or .zero "x"}} {{not .zero}} {{and true "y"}}`,
		`{{define "t"}}<{{.}}>{{end}}{{template "t" .metadata.name}}{{template "t"}}`,
		"{{- /* comment */ -}}\n  {{- .metadata.name -}}  \n", `{{"quoted"}}{{true}}`, `{{1.5}} {{(index .items 0).f}}`,
		`{{range .items}}{{if and .on (gt .n 2)}}{{.name}}{{end}}{{end}}`,
	} {
		var want bytes.Buffer
		wantErr := error(nil)
		parsed, err := template.New("output").Parse(text)
		if err == nil {
			wantErr = parsed.Execute(&want, data)
		} else {
			wantErr = err
		}
		got, err := execute(text, data, false)
		if (err != nil) != (wantErr != nil) {
			t.Errorf("%s: error %v, want %v", text, err, wantErr)
		} else if err == nil && got != want.String() {
			t.Errorf("%s: %q, want %q", text, got, want.String())
		}
	}
}

func TestFunctionsOfKubectl(t *testing.T) {
	for text, want := range map[string]string{
		`{{base64decode .data}}`: "hi",
		`{{exists . "metadata" "name"}} {{exists . "metadata" "none"}} {{exists .items 7}}`: "true false false",
	} {
		if got, err := execute(text, read(t), false); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		`{{`:                              "unclosed action",
		`{{nosuch .}}`:                    `function "nosuch" not defined`,
		`{{js "a"}}`:                      `function "js" not defined`,
		`{{.metadata.name.first}}`:        "can't evaluate field first of web",
		`{{index .items 9}}`:              "index out of range: 9",
		`{{index .items "a"}}`:            "can't index a list with a",
		`{{index .metadata 1}}`:           "can't index an object with 1",
		`{{slice .metadata.name 2 1}}`:    "invalid slice index",
		`{{range .metadata.name}}{{end}}`: "range can't iterate over web",
		`{{eq .items .items}}`:            "non-comparable type",
		`{{eq "a" 1}}`:                    "incompatible types",
		`{{len 3}}`:                       "3 has no length",
		`{{template "none"}}`:             `template "none" is not defined`,
		`{{printf "%999999999d" 1}}`:      "width of more than 999",
		`{{printf "%*d" 999999999 1}}`:    "width of more than 999",
		`{{base64decode "?"}}`:            "illegal base64",
		`{{define "a"}}{{template "a"}}{{end}}{{template "a"}}`: "more than 200 templates",
		`{{define "a"}}{{if .}}{{template "a" slice . 1}}{{template "a" slice . 1}}{{end}}{{end}}{{template "a" "` + strings.Repeat("x", 100) + `"}}`: "more than 5000000 steps",
	} {
		if _, err := execute(text, read(t), false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: error %v, want one with %q", text, err, want)
		}
	}
	if _, err := execute(`{{.none2}}`, read(t), true); err == nil {
		t.Error("a missing key is no error")
	}
}

func FuzzExecute(f *testing.F) {
	f.Add(`{{range $i, $e := .items}}{{$i}}{{end}}`)
	f.Add(`{{define "t"}}{{.}}{{end}}{{template "t" slice .metadata.name 1 | printf "%v"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(text)
		if err != nil || len(text) > 200 {
			return
		}
		_ = p.Execute(io.Discard, read(&testing.T{}))
	})
}

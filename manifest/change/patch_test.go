package change

import (
	"fmt"
	"strings"
	"testing"
)

const definition = `{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"app":"web"},"name":"web"},"spec":{"containers":[{"image":"a:1","name":"app"},{"image":"s:1","name":"side"}]}}`

func TestPatch(t *testing.T) {
	for name, test := range map[string]struct {
		kind PatchType
		// want may be a part of an error.
		patch, want string
	}{
		"strategic merges containers by name": {Strategic, `{"spec":{"containers":[{"name":"side","image":"s:2"}]}}`, strings.Replace(definition, "s:1", "s:2", 1)},
		"strategic removes a container":       {Strategic, `{"spec":{"containers":[{"name":"side","$patch":"delete"}]}}`, strings.Replace(definition, `,{"image":"s:1","name":"side"}`, "", 1)},
		"strategic removes a label":           {Strategic, `{"metadata":{"labels":{"app":null}}}`, strings.Replace(definition, `"app":"web"`, "", 1)},
		"merge replaces lists":                {Merge, `{"spec":{"containers":[{"name":"x"}]}}`, `{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"app":"web"},"name":"web"},"spec":{"containers":[{"name":"x"}]}}`},
		"json":                                {JSON, `[{"op":"replace","path":"/spec/containers/0/image","value":"a:2"}]`, strings.Replace(definition, "a:1", "a:2", 1)},
		"json that tests":                     {JSON, `[{"op":"test","path":"/metadata/name","value":"db"}]`, "testing value /metadata/name failed"},
		"json of a missing field":             {JSON, `[{"op":"remove","path":"/spec/x"}]`, "remove"},
		"json with too many operations":       {JSON, "[" + strings.Repeat(`{"op":"test","path":"/kind","value":"Pod"},`, maxOperations) + `{}]`, "10001 operations, more than the limit of 10000"},
		"no object":                           {Strategic, `[]`, "invalid JSON document"},
		"another type":                        {"apply", `{}`, `--type must be one of json, merge, strategic, not "apply"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Patch([]byte(definition), test.kind, []byte(test.patch))
			text := string(got)
			if err != nil {
				text = err.Error()
			}
			if text != test.want && (err == nil || !strings.Contains(text, test.want)) {
				t.Errorf("%s, want %s", text, test.want)
			}
		})
	}
}

// TestPatchCopies checks that copy operations cannot multiply the size of a definition without
// limit.
func TestPatchCopies(t *testing.T) {
	var operations []string
	for i := range 40 {
		operations = append(operations, fmt.Sprintf(`{"op":"copy","from":"/metadata","path":"/metadata/labels/x%d"}`, i))
	}
	_, err := Patch([]byte(definition), JSON, []byte("["+strings.Join(operations, ",")+"]"))
	if err == nil || !strings.Contains(err.Error(), "copy") {
		t.Errorf("%.200v", err)
	}
}

func TestOfTemplate(t *testing.T) {
	for name, test := range map[string]struct {
		kind        PatchType
		patch, want string // "PATCH | REST"
	}{
		"a pod":                  {Strategic, `{"spec":{"containers":[]}}`, `{"spec":{"containers":[]}} |`},
		"a Deployment":           {Strategic, `{"spec":{"template":{"spec":{"containers":[]}}}}`, `{"spec":{"containers":[]}} |`},
		"a Deployment with more": {Merge, `{"kind":"Deployment","metadata":{"labels":{}},"spec":{"replicas":3,"template":{"metadata":{}}}}`, `{"metadata":{}} | metadata spec.replicas`},
		"a Deployment's fields":  {Merge, `{"spec":{"strategy":{},"replicas":3}}`, `{"spec":{"strategy":{},"replicas":3}} | spec.replicas spec.strategy`},
		"JSON of its replicas":   {JSON, `[{"op":"replace","path":"/spec/replicas","value":3}]`, `[{"op":"replace","path":"/spec/replicas","value":3}] | /spec/replicas`},
		"a CronJob":              {Merge, `{"spec":{"jobTemplate":{"spec":{"template":{"metadata":{}}}},"schedule":"x"}}`, `{"metadata":{}} | spec.schedule`},
		"JSON of a pod":          {JSON, `[{"op":"remove","path":"/spec/x"}]`, `[{"op":"remove","path":"/spec/x"}] |`},
		"JSON of a Deployment":   {JSON, `[{"from":"/spec/template/spec/x","op":"move","path":"/spec/template/spec/y"}]`, `[{"from":"/spec/x","op":"move","path":"/spec/y"}] |`},
		"JSON with more":         {JSON, `[{"op":"remove","path":"/spec/template/spec/x"},{"op":"remove","path":"/spec/replicas"}]`, `[{"op":"remove","path":"/spec/x"},{"op":"remove","path":"/spec/replicas"}] | /spec/replicas`},
		"no object":              {Merge, `[]`, "json: cannot unmarshal array"},
		"no list":                {JSON, `{}`, "json: cannot unmarshal object"},
	} {
		t.Run(name, func(t *testing.T) {
			patch, rest, err := OfTemplate(test.kind, []byte(test.patch))
			got := strings.TrimSpace(string(patch) + " | " + strings.Join(rest, " "))
			if err != nil {
				got = err.Error()
			}
			if got != test.want && (err == nil || !strings.HasPrefix(got, test.want)) {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func TestEdited(t *testing.T) {
	for name, test := range map[string]struct{ old, new, want string }{
		"an image":   {"a:1", "a:2", `{"spec":{"$setElementOrder/containers":[{"name":"app"},{"name":"side"}],"containers":[{"image":"a:2","name":"app"}]}}`},
		"nothing":    {"a:1", "a:1", `{}`},
		"the name":   {`"name":"web"`, `"name":"db"`, "at least one of apiVersion, kind, name and namespace was changed"},
		"the kind":   {"Pod", "Job", "at least one of apiVersion, kind, name and namespace was changed"},
		"no mapping": {definition, "[]", "invalid JSON document"},
	} {
		t.Run(name, func(t *testing.T) {
			patch, err := Edited([]byte(definition), []byte(strings.Replace(definition, test.old, test.new, 1)))
			got := string(patch)
			if err != nil {
				got = err.Error()
			}
			if got != test.want && (err == nil || !strings.Contains(got, test.want)) {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
	// The patch must keep a change that another command has made.
	patch, err := Edited([]byte(definition), []byte(strings.Replace(definition, "a:1", "a:2", 1)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := Patch([]byte(strings.Replace(definition, "s:1", "s:9", 1)), Strategic, patch)
	if want := strings.NewReplacer("a:1", "a:2", "s:1", "s:9").Replace(definition); err != nil || string(got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

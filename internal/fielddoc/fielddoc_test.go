package fielddoc

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// schema contains the parts of the API's OpenAPI v3 documents that this test reads.
type schema struct {
	Ref        string             `json:"$ref"`
	Type       string             `json:"type"`
	Items      *schema            `json:"items"`
	Values     *schema            `json:"additionalProperties"`
	AllOf      []schema           `json:"allOf"`
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
}

type document struct {
	Components struct {
		Schemas map[string]*schema `json:"schemas"`
	} `json:"components"`
}

// guess returns kubectl's name of a type (k8s.io/kubectl/pkg/explain/v2/templates).
func (d *document) guess(s *schema) string {
	name := s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]
	switch {
	case s.Items != nil:
		return "[]" + d.guess(s.Items)
	case s.Values != nil:
		return "map[string]" + d.guess(s.Values)
	case len(s.AllOf) == 1 && s.Properties == nil:
		return d.guess(&s.AllOf[0])
	case name != "":
		if of := d.Components.Schemas[name]; of.Type != "" && of.Type != "object" {
			return of.Type
		}
		return name[strings.LastIndexByte(name, '.')+1:]
	}
	return s.Type
}

// properties returns the schema with the fields inside a field. It returns nil for a value.
func (d *document) properties(s *schema) *schema {
	for s.Items != nil || s.Values != nil || len(s.AllOf) == 1 || s.Ref != "" {
		switch {
		case s.Items != nil:
			s = s.Items
		case s.Values != nil:
			s = s.Values
		case len(s.AllOf) == 1:
			s = &s.AllOf[0]
		default:
			s = d.Components.Schemas[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]]
		}
	}
	return s
}

func readDocument(t *testing.T, k Kind) *document {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatal(err)
	}
	file := "api__v1_openapi.json"
	if k.Group != "" {
		file = "apis__" + k.Group + "__v1_openapi.json"
	}
	data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "api/openapi-spec/v3", file))
	if err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	return &d
}

// TestAgainstOpenAPI compares the names, types and required fields of all kinds, recursively,
// with the documents that kubectl explain reads.
func TestAgainstOpenAPI(t *testing.T) {
	documents, checked := map[string]*document{}, 0
	for _, k := range Kinds {
		d := documents[k.Group]
		if d == nil {
			d = readDocument(t, k)
			documents[k.Group] = d
		}
		var compare func(f Field, s *schema, depth int)
		compare = func(f Field, s *schema, depth int) {
			var names []string
			for _, one := range f.Fields() {
				p := s.Properties[one.Name]
				names = append(names, one.Name)
				if p == nil {
					t.Errorf("%s %s: the API has no such field", k.Name, one.path)
					continue
				}
				checked++
				if want := d.guess(p); one.Type != want {
					t.Errorf("%s %s is %s, want %s", k.Name, one.path, one.Type, want)
				}
				if want := slices.Contains(s.Required, one.Name); one.Required != want {
					t.Errorf("%s %s: required %v, want %v", k.Name, one.path, one.Required, want)
				}
				if one.Doc == "" {
					t.Errorf("%s %s has no text", k.Name, one.path)
				}
				compare(one, d.properties(p), depth+1)
			}
			if len(names) != len(s.Properties) {
				t.Errorf("%s %s: fields %q of %d", k.Name, f.path, names, len(s.Properties))
			}
			if depth >= maxDepth {
				t.Fatalf("%s %s is too deep", k.Name, f.path)
			}
		}
		root := ""
		for name := range d.Components.Schemas {
			if strings.HasPrefix(name, "io.k8s.api.") && strings.HasSuffix(name, ".v1."+k.Name) {
				root = name
			}
		}
		compare(Root(&k), d.Components.Schemas[root], 0)
	}
	if checked < 5000 {
		t.Errorf("%d fields were compared", checked)
	}
}

func TestClaims(t *testing.T) {
	for path, want := range map[string]string{
		"pod": "", "pod.metadata": "", "pod.metadata.uid": "supported: must be safe in a path; the default is a hash of the pod",
		"pod.metadata.managedFields.time":                       "left out: set by an API server, or for its controllers",
		"pod.spec":                                              "",
		"pod.spec.activeDeadlineSeconds":                        "supported: enforced only while a podrun command is running for the pod; 'apply' prints a warning about this",
		"pod.spec.containers.image":                             "supported",
		"pod.spec.tolerations.tolerationSeconds":                "no effect: only the controller that evicts pods from tainted nodes uses it",
		"pod.spec.initContainers":                               "supported: like spec.containers[]",
		"pod.spec.initContainers.restartPolicy":                 "supported: 'Always' makes the container a sidecar",
		"pod.spec.initContainers.resources.claims":              "refused: like spec.resourceClaims",
		"pod.spec.initContainers[0].lifecycle.postStart":        "supported",
		"pod.spec.affinity":                                     "",
		"pod.spec.volumes[*].csi.driver":                        "refused: mount the storage on the host and use hostPath",
		"pod.status.phase":                                      ofStatus.Note,
		"cronjob.spec.schedule":                                 "",
		"cronjob.spec.jobTemplate.spec.template.spec.priority":  "supported: critical pods preempt other podrun pods",
		"podtemplate.template.spec.schedulerName":               "no effect: there is no scheduler",
		"deployment":                                            severalOfTemplate,
		"deployment.spec.template.spec.volumes.csi.driver":      "refused: mount the storage on the host and use hostPath",
		"configmap.data":                                        "",
		"persistentvolumeclaim.spec.accessModes":                "",
		"statefulset.spec.volumeClaimTemplates.spec.volumeName": "",
	} {
		names := strings.Split(path, ".")
		f, err := Lookup(Find(names[0]), names[1:])
		if err != nil {
			t.Error(err)
		}
		if got := f.claim().String(); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

func TestLookupUnknown(t *testing.T) {
	for path, want := range map[string]string{
		"po.spec.x":                  `pod.spec has no field "x"`,
		"po.spec.containers.image.x": `pod.spec.containers.image has no fields: "x" does not exist`,
		"cm.data.key":                `configmap.data has no fields: "key" does not exist`,
		"po.":                        `pod has no field ""`,
		"po.Spec":                    `pod has no field "Spec"`,
	} {
		names := strings.Split(path, ".")
		_, err := Lookup(Find(names[0]), names[1:])
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	if Find("node") != nil || Find("") != nil || Find("PODS").Name != "Pod" {
		t.Error("Find")
	}
}

// TestPrint checks that the format is kubectl's.
func TestPrint(t *testing.T) {
	f, err := Lookup(Find("job"), strings.Split("spec.template.spec.containers.env.valueFrom.fieldRef", "."))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		print func(*strings.Builder) error
		want  string
	}{
		"with texts": {func(b *strings.Builder) error { return Print(b, f) }, `
FIELDS:
  apiVersion	<string>
    Version of the schema the FieldPath is written in terms of, defaults to
    "v1".
    podrun: supported: the API accepts v1 only

  fieldPath	<string> -required-
    Path of the field to select in the specified API version.

`},
		"recursive": {func(b *strings.Builder) error { return PrintAll(b, f) }, `
FIELDS:
  apiVersion	<string>
  fieldPath	<string> -required-
`},
	} {
		var b strings.Builder
		if err := c.print(&b); err != nil {
			t.Fatal(err)
		}
		want := `GROUP:      batch
KIND:       Job
VERSION:    v1

FIELD: fieldRef <ObjectFieldSelector>

DESCRIPTION:
    Selects a field of the pod: supports metadata.name, metadata.namespace,
    ` + "`metadata.labels['<KEY>']`, `metadata.annotations['<KEY>']`, spec.nodeName," + `
    spec.serviceAccountName, status.hostIP, status.podIP, status.podIPs.
    ObjectFieldSelector selects an APIVersioned field of an object.

PODRUN:
    supported
` + c.want
		if diff := cmp.Diff(want, b.String()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for _, k := range Kinds {
		var b strings.Builder
		if err := PrintAll(&b, Root(&k)); err != nil || b.Len() < 500 {
			t.Errorf("%s: %d bytes, %v", k.Name, b.Len(), err)
		}
		for line := range strings.Lines(b.String()) {
			if words := strings.Fields(line); len(line) > width+1 && len(words) > 1 && !strings.Contains(line, "\t") {
				t.Errorf("%s: a line is too long: %s", k.Name, line)
			}
		}
	}
}

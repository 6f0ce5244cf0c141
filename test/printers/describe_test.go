package printers

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/describe"
	"sigs.k8s.io/yaml"
)

func TestMain(m *testing.M) {
	time.Local = time.UTC
	os.Exit(m.Run())
}

// TestDescribe compares the texts with the output of kubectl's describers.
func TestDescribe(t *testing.T) {
	files, err := filepath.Glob("../../cmd/testdata/describe/objects/*.txtar")
	if err != nil || len(files) < 10 {
		t.Fatalf("only %v (%v)", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			objects := decode(t, archive.Files[0].Data)
			got := describeWithKubectl(t, objects)
			if os.Getenv("PODRUN_WRITE") != "" {
				archive.Files = []txtar.File{archive.Files[0], {Name: "want", Data: []byte(got)}}
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(got, string(archive.Files[1].Data)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// decode decodes the documents of a file.
func decode(t *testing.T, data []byte) (out []*unstructured.Unstructured) {
	t.Helper()
	for _, document := range bytes.Split(data, []byte("\n---\n")) {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &o.Object); err != nil {
			t.Fatal(err)
		}
		out = append(out, o)
	}
	return out
}

// describeWithKubectl describes the first object. The server has the other objects too.
func describeWithKubectl(t *testing.T, objects []*unstructured.Unstructured) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		list := map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{}, "items": []any{}}
		for _, o := range objects {
			resource := strings.ToLower(o.GetKind()) + "s"
			if r.URL.Path == path.Join(path.Dir(r.URL.Path), o.GetName()) && path.Base(path.Dir(r.URL.Path)) == resource {
				writeJSON(t, w, o.Object)
				return
			}
			if path.Base(r.URL.Path) == resource {
				list["kind"], list["apiVersion"] = o.GetKind()+"List", o.GetAPIVersion()
				list["items"] = append(list["items"].([]any), o.Object)
			}
		}
		writeJSON(t, w, list)
	}))
	defer server.Close()
	describer, ok := describe.DescriberFor(objects[0].GroupVersionKind().GroupKind(), &rest.Config{Host: server.URL})
	if !ok {
		t.Fatalf("kubectl has no describer for a %s", objects[0].GetKind())
	}
	text, err := describer.Describe(objects[0].GetNamespace(), objects[0].GetName(), describe.DescriberSettings{ShowEvents: true, ChunkSize: 500})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func writeJSON(t *testing.T, w http.ResponseWriter, o any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(o); err != nil {
		t.Error(err)
	}
}

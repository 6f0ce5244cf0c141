package printers

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"path"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/describe"
)

// TestDescribe compares texts with the output of kubectl's describers.
func TestDescribe(t *testing.T) {
	atNow(t, "describe/*.txtar describe/objects/*.txtar", func(t *testing.T, f *file) {
		f.compare(t, "want", describeWithKubectl(t, f.objects(t), f.events(t)))
	})
}

// describeWithKubectl describes the first object. The server has the other objects too.
func describeWithKubectl(t *testing.T, objects []*unstructured.Unstructured, events *corev1.EventList) string {
	t.Helper()
	s := &server{t: t, objects: objects, events: events}
	describer, ok := describe.DescriberFor(objects[0].GroupVersionKind().GroupKind(), &rest.Config{Host: "http://server", Transport: s})
	if !ok {
		t.Fatalf("kubectl has no describer for a %s", objects[0].GetKind())
	}
	text, err := describer.Describe(objects[0].GetNamespace(), objects[0].GetName(), describe.DescriberSettings{ShowEvents: true, ChunkSize: 500})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// server answers the requests of a client as an API server with these objects does, as far as the
// describers require. It ignores selectors.
type server struct {
	t       *testing.T
	objects []*unstructured.Unstructured
	events  *corev1.EventList
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	if path.Base(r.URL.Path) == "events" {
		return s.answer(r, s.events)
	}
	list := map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{}, "items": []any{}}
	for _, o := range s.objects {
		resource := strings.ToLower(o.GetKind()) + "s"
		if dir, base := path.Split(r.URL.Path); base == o.GetName() && path.Base(dir) == resource {
			return s.answer(r, o.Object)
		}
		if path.Base(r.URL.Path) == resource {
			list["kind"], list["apiVersion"] = o.GetKind()+"List", o.GetAPIVersion()
			list["items"] = append(list["items"].([]any), o.Object)
		}
	}
	return s.answer(r, list)
}

func (s *server) answer(r *http.Request, o any) (*http.Response, error) {
	data, err := json.Marshal(o)
	if err != nil {
		s.t.Error(err)
	}
	return &http.Response{Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(data))}, nil
}

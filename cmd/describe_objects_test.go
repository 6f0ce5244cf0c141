package cmd

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/podrun/podrun/internal/event"
)

// TestDescribeObjects compares the output with that of kubectl's describers for the same objects, byte by
// byte. test/printers compares the texts with kubectl's code.
func TestDescribeObjects(t *testing.T) {
	files, err := filepath.Glob("testdata/describe/objects/*.txtar")
	if err != nil || len(files) < 10 {
		t.Fatalf("only %v (%v)", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			object, pods, endpoints := describedObjects(t, archive.Files[0].Data)
			var out bytes.Buffer
			err = describe(&out, screen{}, tableNow, func(d *description) {
				if s, ok := object.(*corev1.Service); ok {
					d.service(s, endpoints, "", true)
					return
				}
				d.workload(object, pods, []event.Event{})
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(archive.Files[1].Data), out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// describedObjects decodes the object to describe, its pods and its EndpointSlices.
func describedObjects(t *testing.T, data []byte) (object runtime.Object, pods []*corev1.Pod, endpoints []*discoveryv1.EndpointSlice) {
	t.Helper()
	for _, document := range strings.Split(string(data), "\n---\n") {
		o, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		switch o := o.(type) {
		case *corev1.Pod:
			pods = append(pods, o)
		case *discoveryv1.EndpointSlice:
			endpoints = append(endpoints, o)
		default:
			object = o
		}
	}
	return object, pods, endpoints
}

// podrun has no events of workloads: it prints those of the pods.
func TestDescribeEventsOfPods(t *testing.T) {
	object, pods, _ := describedObjects(t, []byte("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"))
	var out bytes.Buffer
	err := describe(&out, screen{}, tableNow, func(d *description) {
		d.workload(object, pods, []event.Event{
			{Time: ago(0).Time, Type: "Normal", Reason: "Started", Pod: "web", FieldPath: "spec.containers{app}", Message: "Container started"},
			{Time: ago(0).Time, Type: "Warning", Reason: "BackOff", Pod: "web-1", Message: "Back-off"},
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"podrun  pod web: spec.containers{app}: Container started\n", "podrun  pod web-1: Back-off\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
}

package inspect

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/podrun/podrun/cmd/apikind"
	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/event"
)

// TestDescribeObjects compares the output of describe and get with kubectl's for the same objects, byte by
// byte. test/printers compares the texts with kubectl's code.
func TestDescribeObjects(t *testing.T) {
	eachArchive(t, "describe/objects", func(t *testing.T, section func(string) string) {
		object, pods, endpoints := describedObjects(t, []byte(section("objects.yaml")))
		var out bytes.Buffer
		err := describe(&out, view.Screen{}, tableNow, func(d *view.Description) {
			switch o := object.(type) {
			case *corev1.Service:
				d.Service(o, endpoints, "", []event.Event{})
			case *corev1.ConfigMap:
				d.ConfigMap(o, true)
			case *corev1.Secret:
				d.Secret(o, nil)
			default:
				d.Workload(object, pods, []event.Event{})
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(section("want"), out.String()); diff != "" {
			t.Errorf("describe (-kubectl +podrun):\n%s", diff)
		}
		kind := object.GetObjectKind().GroupVersionKind().Kind
		for name, wide := range map[string]bool{"get": false, "wide": true} {
			var out bytes.Buffer
			rows := objectRows(apikind.Of(kind), []Object{{Kind: kind, Object: object, Meta: object.(metav1.Object)}}, view.TableOptions{Wide: wide, Now: tableNow})
			if err := (view.Screen{}).Table(&out, rows); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(section(name), out.String()); diff != "" {
				t.Errorf("%s (-kubectl +podrun):\n%s", name, diff)
			}
		}
	})
}

// TestColumnsOfKubectl compares custom columns with kubectl's; the names of the sections are the columns.
func TestColumnsOfKubectl(t *testing.T) {
	eachArchive(t, "columns", func(t *testing.T, section func(string) string) {
		_, pods, _ := describedObjects(t, []byte(section("objects.yaml")))
		list := &corev1.PodList{}
		for _, pod := range pods {
			list.Items = append(list.Items, *pod)
		}
		for _, name := range strings.Split(section(""), "\n")[1:] {
			c, err := view.NewColumns(name, false)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if err := c.PrintObj(list, &out); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(section(name), out.String()); diff != "" {
				t.Errorf("%s (-kubectl +podrun):\n%s", name, diff)
			}
		}
	})
}

// TestEventsOfKubectl compares the table of events with that of 'kubectl events'.
func TestEventsOfKubectl(t *testing.T) {
	eachArchive(t, "events", func(t *testing.T, section func(string) string) {
		for name, all := range map[string]bool{"one namespace": false, "all namespaces": true} {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(tableNow))
				var out bytes.Buffer
				a := cli.New(cli.Streams{Out: &out, Err: &out})
				if err := eventTable(a, journalOf(t, section("events.jsonl")), &eventsFlags{allNamespaces: all}, true); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(section(name), out.String()); diff != "" {
					t.Errorf("%s (-kubectl +podrun):\n%s", name, diff)
				}
			})
		}
	})
}

// eachArchive calls test for each file of a directory in cmd/view/testdata, with a function that returns a section of
// the file, or the names of all sections for "".
func eachArchive(t *testing.T, dir string, test func(t *testing.T, section func(string) string)) {
	t.Helper()
	files, err := filepath.Glob("../view/testdata/" + dir + "/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no files (%v)", dir, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sections, names := map[string]string{}, []string{}
			for _, f := range archive.Files {
				sections[f.Name] = string(f.Data)
				names = append(names, f.Name)
			}
			sections[""] = strings.Join(names, "\n")
			test(t, func(name string) string { return sections[name] })
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
	err := describe(&out, view.Screen{}, tableNow, func(d *view.Description) {
		d.Workload(object, pods, []event.Event{
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

// journalOf decodes a journal.
func journalOf(t *testing.T, text string) (out []event.Event) {
	t.Helper()
	for line := range strings.Lines(text) {
		var e event.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

var tableNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(tableNow.Add(-d)) }

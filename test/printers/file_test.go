package printers

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// now is the time at which the tests of package cmd print the objects.
var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestMain(m *testing.M) {
	time.Local = time.UTC
	os.Exit(m.Run())
}

// file is a file in cmd/view/testdata. It has objects or a pod, events, and texts.
type file struct {
	name    string
	archive *txtar.Archive
}

// atNow calls test for each file of the patterns, in a bubble whose time is now.
func atNow(t *testing.T, patterns string, test func(*testing.T, *file)) {
	for _, pattern := range strings.Fields(patterns) {
		names, err := filepath.Glob("../../cmd/view/testdata/" + pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: no files (%v)", pattern, err)
		}
		for _, name := range names {
			t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
				archive, err := txtar.ParseFile(name)
				if err != nil {
					t.Fatal(err)
				}
				synctest.Test(t, func(t *testing.T) {
					time.Sleep(time.Until(now))
					test(t, &file{name: name, archive: archive})
				})
			})
		}
	}
}

// section returns the content of a section, or nil if the file has no such section.
func (f *file) section(name string) []byte {
	if i := slices.IndexFunc(f.archive.Files, func(s txtar.File) bool { return s.Name == name }); i >= 0 {
		return f.archive.Files[i].Data
	}
	return nil
}

// objects decodes the documents of a file. The first object is the one to print.
func (f *file) objects(t *testing.T) (out []*unstructured.Unstructured) {
	t.Helper()
	for _, section := range []string{"pod.yaml", "objects.yaml"} {
		if f.section(section) == nil {
			continue
		}
		for _, document := range bytes.Split(f.section(section), []byte("\n---\n")) {
			o := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(document, &o.Object); err != nil {
				t.Fatal(err)
			}
			out = append(out, o)
		}
	}
	return out
}

// events decodes the journal of a pod. As in a cluster, equal events are one event with a count.
func (f *file) events(t *testing.T) *corev1.EventList {
	t.Helper()
	list := &corev1.EventList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "EventList"}, Items: []corev1.Event{}}
	for lines := bufio.NewScanner(bytes.NewReader(f.section("events.jsonl"))); lines.Scan(); {
		var e struct {
			Time, FirstTimestamp                             metav1.Time
			Namespace, Pod, Type, Reason, FieldPath, Message string
			Count                                            int32
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		if e.FirstTimestamp.IsZero() {
			e.FirstTimestamp = e.Time
		}
		if i := slices.IndexFunc(list.Items, func(o corev1.Event) bool {
			return o.Reason == e.Reason && o.Message == e.Message && o.InvolvedObject.Name == e.Pod && o.InvolvedObject.FieldPath == e.FieldPath
		}); i >= 0 {
			list.Items[i].Count++
			list.Items[i].LastTimestamp = e.Time
			continue
		}
		list.Items = append(list.Items, corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: e.Namespace, Name: "event"},
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: e.Pod, FieldPath: e.FieldPath},
			Type:           e.Type, Reason: e.Reason, Message: e.Message, Count: max(e.Count, 1),
			FirstTimestamp: e.FirstTimestamp, LastTimestamp: e.Time, Source: corev1.EventSource{Component: "podrun"},
		})
	}
	return list
}

// compare compares a section with kubectl's output, or rewrites it. It ignores the differences that causes
// lists.
func (f *file) compare(t *testing.T, section, kubectl string) {
	t.Helper()
	for _, c := range causes {
		if c.file != filepath.Base(f.name) || c.section != section {
			continue
		}
		if strings.Count(kubectl, c.kubectl) != 1 {
			t.Errorf("%s: the output of kubectl does not contain once:\n%s", c.name, c.kubectl)
		}
		kubectl = strings.Replace(kubectl, c.kubectl, c.podrun, 1)
	}
	if diff := cmp.Diff(kubectl, string(f.section(section))); diff == "" {
		return
	} else if os.Getenv("PODRUN_WRITE") == "" {
		t.Errorf("%s (-kubectl +%s):\n%s", section, f.name, diff)
		return
	}
	i := slices.IndexFunc(f.archive.Files, func(s txtar.File) bool { return s.Name == section })
	if i < 0 {
		i = len(f.archive.Files)
		f.archive.Files = append(f.archive.Files, txtar.File{Name: section})
	}
	f.archive.Files[i].Data = []byte(kubectl)
	if err := os.WriteFile(f.name, txtar.Format(f.archive), 0o644); err != nil {
		t.Fatal(err)
	}
}

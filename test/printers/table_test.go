package printers

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kubectl/pkg/cmd/events"
	"k8s.io/kubectl/pkg/cmd/get"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	apiprinters "k8s.io/kubernetes/pkg/printers"
	"k8s.io/kubernetes/pkg/printers/internalversion"
)

// TestGet compares texts with the tables of the API server, as kubectl prints them.
func TestGet(t *testing.T) {
	atNow(t, "describe/*.txtar describe/objects/*.txtar", func(t *testing.T, f *file) {
		data, err := f.objects(t)[0].MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		decoded, _, err := legacyscheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		object, err := legacyscheme.Scheme.UnsafeConvertToVersion(decoded, runtime.InternalGroupVersioner)
		if err != nil {
			t.Fatal(err)
		}
		f.compare(t, "get", getWithKubectl(t, object, false))
		f.compare(t, "wide", addColumns(getWithKubectl(t, object, true), filepath.Base(f.name)))
	})
}

func getWithKubectl(t *testing.T, object runtime.Object, wide bool) string {
	t.Helper()
	table, err := apiprinters.NewTableGenerator().With(internalversion.AddHandlers).GenerateTable(object, apiprinters.GenerateOptions{Wide: wide})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	w := printers.GetNewTabWriter(&out)
	if err := printers.NewTablePrinter(printers.PrintOptions{Wide: wide}).PrintObj(table, w); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestColumns compares the texts of sections whose names are the specifications of custom columns.
func TestColumns(t *testing.T) {
	atNow(t, "columns/*.txtar", func(t *testing.T, f *file) {
		list := &metav1.List{}
		for _, o := range f.objects(t) {
			list.Items = append(list.Items, runtime.RawExtension{Object: o})
		}
		for _, section := range f.archive.Files[1:] {
			p, err := get.NewCustomColumnsPrinterFromSpec(section.Name, scheme.Codecs.UniversalDecoder(), false)
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			if err := p.PrintObj(&corev1.List{Items: list.Items}, &out); err != nil {
				t.Fatal(err)
			}
			f.compare(t, section.Name, out.String())
		}
	})
}

// TestEvents compares texts with the output of 'kubectl events'.
func TestEvents(t *testing.T) {
	atNow(t, "events/*.txtar", func(t *testing.T, f *file) {
		for _, section := range []string{"one namespace", "all namespaces"} {
			var out strings.Builder
			w := printers.GetNewTabWriter(&out)
			if err := events.NewEventPrinter(false, section == "all namespaces").PrintObj(f.events(t), w); err != nil {
				t.Fatal(err)
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			f.compare(t, section, out.String())
		}
	})
}

package manifest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest/input"
	"github.com/podrun/podrun/test/patience"
)

// TestHostile checks that podrun soon refuses input that would take forever. The time limit is
// generous because of busy machines. Without the limits on input, the test would take minutes.
func TestHostile(t *testing.T) {
	pod := func(list, entry string, size int) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: c\n    image: i\n    " + list + ":\n" + strings.Repeat(entry, size/len(entry))
	}
	const bound = 30 // ticks
	one := func(list, entry string) string { return pod(list, entry, len(entry)) }
	configMap := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	for name, tc := range map[string]struct {
		text string
		want string // text in a problem; "" if there must be none
	}{
		"documents":        {strings.Repeat("a\n---\n", 1<<20), "more than 10000 documents"},
		"JSON documents":   {strings.Repeat("{}", 1<<20), "more than 10000 documents"},
		"separators":       {strings.Repeat("---\n", 2<<20), "no objects in input"},
		"brackets":         {strings.Repeat("[", 8<<20), "larger than 3 MiB"},
		"braces":           {strings.Repeat(`{"a":`, 1<<19), "more than 250000 values"},
		"dashes":           {strings.Repeat("- ", 1<<16), "exceeded max depth"},
		"a deep value":     {configMap + "a: " + strings.Repeat("[", 200) + strings.Repeat("]", 200), "nested more than 100 deep"},
		"deep JSON":        {`{"a":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "}", "nested more than 100 deep"},
		"values":           {configMap + "a: [" + strings.Repeat("1,", 1<<20) + "1]", "more than 250000 values"},
		"values of JSON":   {`{"a":[` + strings.Repeat("1,", 1<<20) + "1]}", "more than 250000 values"},
		"empty values":     {configMap + "a:\n" + strings.Repeat("-\n", 1<<20), "more than 250000 values"},
		"values of one":    {configMap + "a: [" + strings.Repeat("1,", 60000) + "1]", "ConfigMap a: has more than 50000 values"},
		"values of all":    {strings.Repeat(`{"apiVersion":"v1","kind":"X","a":[`+strings.Repeat("1,", 49000)+"1]}\n", 30), "the input has more than 1000000 values"},
		"pods":             {pods(1200), "the input has more than 1000 pods"},
		"containers":       {one("env", "    - {name: A}\n") + containers(1001), "the pod has 1002 containers, more than the limit of 1000"},
		"all containers":   {strings.ReplaceAll(pods(21), "containers: [{name: c, image: i}]}", "initContainers: ["+strings.ReplaceAll(strings.TrimPrefix(containers(99), "  - "), "\n  - ", ", ")+"], containers: [{name: c, image: i}]}"), "the input has more than 2000 containers"},
		"claims":           {each("apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c%d}\nspec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n---\n", 1001), "the input has more than 1000 PersistentVolumeClaims"},
		"volumes":          {each("apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: v%d}\nspec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, hostPath: {path: /x}}\n---\n", 1001), "the input has more than 1000 PersistentVolumes"},
		"alias of a text":  {configMap + "data:\n  a: &a " + strings.Repeat("x", 100000) + "\n" + strings.Repeat("  b: *a\n", 20000), "with its aliases expanded, the document is larger than 3 MiB"},
		"alias in JSON":    {configMap + "data: {a: &a " + strings.Repeat("x", 100000) + ", b: [" + strings.Repeat("*a,", 20000) + "]}", "with its aliases expanded, the document is larger than 3 MiB"},
		"memory 1e9999999": {one("resources", "      limits: {memory: \"1e9999999\"}\n"), "spec.containers[0].resources.limits[memory]: not a valid quantity"},
		"cpu 1e-999999999": {one("resources", "      limits: {cpu: \"1e-999999999\"}\n"), "spec.containers[0].resources.limits[cpu]: not a valid quantity"},
		"spaces":           {one("resources", "      limits: {memory: \"1e-99999999 \"}\n"), "spec.containers[0].resources.limits[memory]: not a valid quantity"},
		"1 with 00031":     {one("resources", "      limits: {cpu: 1E+00031}\n"), "an exponent beyond ±30"},
		"a long quantity":  {one("resources", "      limits: {cpu: \""+strings.Repeat("9", 2<<20)+"\"}\n"), "longer than 64 characters"},
		"no quantity":      {one("env", "    - {name: A, value: \"1e9999999\"}\n"), ""},
		"storage":          {strings.Replace(configMap, "ConfigMap", "PersistentVolumeClaim", 1) + "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1e9999999}}}", "spec.resources.requests[storage]: not a valid quantity"},
		"items":            {`{"apiVersion":"v1","kind":"List","items":[` + strings.Repeat("{},", 20000) + "{}]}", "more than 10000 items"},
		"a large object":   {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: " + strings.Repeat("x", 4<<20) + "}\n", "larger than 3 MiB"},
		"environment":      {pod("env", "    - {name: A}\n", 150<<10), ""},
		"ports":            {pod("ports", "    - {containerPort: 1}\n", 150<<10), ""},
		"duplicate fields": {"a: 1\n" + strings.Repeat("b: 1\n", 1<<15), "and "},
		"billion laughs": {"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n" +
			"e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n", "excessive aliasing"},
		"an alias of itself": {"a: &a [*a]\n", "contains itself"},
		"binary":             {string(bytes.Repeat([]byte{0}, 1<<20)), "this is a binary file, not a manifest"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var problems problem.List
			patience.Within(t, bound, "Load", func() { _, problems = Load([]input.Source{{Name: "f", Data: []byte(tc.text)}}, Options{}) })
			if text := problems.Errors().String(); tc.want == "" && text != "" || !strings.Contains(text, tc.want) {
				t.Errorf("problems %.300s, want %q", text, tc.want)
			}
		})
	}
}

// containers returns more entries for the list at the end of a pod's text.
func containers(n int) string { return each("  - {name: c%d, image: i}\n", n) }

// podrun must accept what an API server accepts: text that looks like structure, numbers with
// exponents, and aliases.
func TestNotHostile(t *testing.T) {
	csv := strings.Repeat("1,2,3: [4], {5}\n    ", 50000)
	for name, text := range map[string]string{
		"text":       "data:\n  a: |\n    " + csv + "\n",
		"quoted":     "data:\n  a: \"" + csv + "\"\n",
		"aliases":    "data:\n  a: &a " + strings.Repeat("x", 10000) + "\n  b: *a\n  c: *a\n",
		"asterisks":  "data:\n  a: |\n" + strings.Repeat("    - *bold*, &c\n", 50000),
		"keys":       "data: {" + keys(10000) + "}\n",
		"exponents":  "data: {a: \"1e99999\"}\n",
		"UTF-8 text": "data:\n  a: \"" + strings.Repeat("ü: ", 100000) + "\"\n",
	} {
		if got := hostile("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n" + text + "---\n" + onePod); len(got) > 0 {
			t.Errorf("%s: %.300s", name, got)
		}
	}
}

func keys(n int) string { return each("k%d: v,", n) }

func pods(n int) string {
	return each("apiVersion: v1\nkind: Pod\nmetadata: {name: p%d}\nspec: {containers: [{name: c, image: i}]}\n---\n", n)
}

// each repeats a text n times. Each repetition contains its number.
func each(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

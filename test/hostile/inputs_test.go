package hostile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// input is an input that is designed to be expensive.
type input struct {
	name string
	// text returns the content of a file or, if files is set, of each file in a directory.
	text  func() string
	files int
	// stream is set if the text has several documents, or exceeds the maximum size of one.
	stream bool
	gate   bool // true if the short form of the test includes the input
}

const podHead = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  restartPolicy: Never\n  containers:\n"

const mapHead = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n"

// each repeats a format n times with consecutive numbers.
func each(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

func text(s string) func() string { return func() string { return s } }

// list is a pod in which one list of a container has many items.
func list(name, entries string) string {
	return podHead + "  - name: c\n    image: i\n    " + name + ":\n" + entries
}

// doubling returns variables, each of which is twice as long as the previous one.
func doubling(n int) string {
	return list("env", "    - {name: V0, value: xxxxxxxxxxxxxxxx}\n"+func() string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "    - {name: V%d, value: $(V%d)$(V%d)}\n", i+1, i, i)
		}
		return b.String()
	}())
}

const mib = 1 << 20

// inputs returns the inputs in faults.md (F3) and attacks.md (D8), and others.
func inputs() []input {
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: p%d}\nspec: {containers: [{name: c, image: i}]}\n---\n"
	return []input{
		{name: "24 doubling variables", text: text(doubling(24)), gate: true},
		{name: "28 doubling variables", text: text(doubling(28))},
		{name: "40,000 variables", text: func() string { return list("env", each(16000, "    - {name: V%d, value: $(V0)}\n")) }, gate: true},
		{name: "20,000 aliases of 100 kB", text: text(mapHead + "data:\n  a: &a " + strings.Repeat("x", 100000) + "\n" + each(20000, "  b%d: *a\n")), gate: true},
		{name: "aliases of aliases", text: text("a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f]\n")},
		{name: "memory: 1e9999999", text: text(list("resources", "      limits: {memory: \"1e9999999\"}\n")), gate: true},
		{name: "cpu: 1e-999999999", text: text(list("resources", "      limits: {cpu: \"1e-999999999\"}\n"))},
		{name: "1,000 containers", text: text(podHead + each(1000, "  - {name: c%d, image: i, resources: {limits: {cpu: 1m, memory: 8Mi}}, env: [{name: A, value: b}], ports: [{containerPort: 80}]}\n"))},
		{name: "4,000 containers", text: text(podHead + each(4000, "  - {name: c%d, image: i, resources: {limits: {cpu: 1m}}}\n")), gate: true},
		{name: "1,000 containers with 20 volumes each", text: func() string {
			return podHead + each(1000, "  - {name: c%d, image: i, volumeMounts: ["+each(20, "{name: v%[1]d, mountPath: /m%[1]d},")+"]}\n") + "  volumes: [" + each(20, "{name: v%[1]d, emptyDir: {}},") + "]\n"
		}},
		{name: "49,000 values in a list", text: func() string { return mapHead + "binaryData: [" + strings.Repeat("1,", 49000) + "1]\n" }},
		{name: "3 MiB of [1,1,…]", text: func() string { return mapHead + "data: {a: [" + strings.Repeat("1,", 3*mib/2-100) + "1]}\n" }, gate: true},
		{name: "3 MiB of [", text: text(mapHead + "data: " + strings.Repeat("[", 3*mib-200))},
		{name: "3 MiB of {a: {", text: text(strings.Repeat("{a: ", 3*mib/4-100))},
		{name: "3 MiB of empty entries", text: text("a:\n" + strings.Repeat("-\n", 3*mib/2-100))},
		{name: "3 MiB of NUL", text: text(strings.Repeat("\x00", 3*mib-1))},
		{name: "3 MiB of \\u0001", text: text(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"` + strings.Repeat(`\u0001`, 3*mib/6-100) + `"}}`)},
		{name: "3 MiB in one quoted value", text: text("apiVersion: v1\nkind: Pod\nmetadata: {name: a, annotations: {a: \"" + strings.Repeat("ü: ", mib/2) + "\"}}\n")},
		{name: "3 MiB of one key repeated", text: text(strings.Repeat("b: 1\n", 3*mib/5-100))},
		{name: "3 MiB of unknown fields", text: func() string { return podHead + "  - {name: c, image: i, " + each(20000, "x%d: 1, ") + "}\n" }},
		{name: "10,000 invalid ports", text: func() string {
			return list("ports", each(10000, "    - {name: \"A b\", containerPort: %d000000}\n"))
		}},
		{name: "2,000 volumes", text: func() string {
			return podHead + "  - {name: c, image: i}\n  volumes:\n" + each(2000, "  - {name: v%d, emptyDir: {}}\n")
		}},
		{name: "5,000 projected sources", text: func() string {
			return mapHead + "data: {k: v}\n---\n" + podHead + "  - {name: c, image: i, volumeMounts: [{name: v, mountPath: /v}]}\n  volumes:\n  - name: v\n    projected:\n      sources:\n" + each(5000, "      - configMap: {name: m, items: [{key: k, path: p%d}]}\n")
		}, stream: true},
		{name: "5,000 tolerations", text: func() string {
			return podHead + "  - {name: c, image: i}\n  tolerations:\n" + each(5000, "  - {key: k%d, operator: Exists}\n")
		}},
		{name: "5,000 pods", text: func() string { return each(5000, pod) }, stream: true, gate: true},
		{name: "1,000 pods", text: func() string { return each(1000, pod) }, stream: true},
		{name: "100 pods with 20 containers", text: func() string {
			return each(100, "apiVersion: v1\nkind: Pod\nmetadata: {name: p%d}\nspec: {containers: [{name: c, image: i}"+strings.ReplaceAll(each(19, ",{name: c%d, image: i, env: [{name: A, value: b}]}"), "%", "%%")+"]}\n---\n")
		}, stream: true},
		{name: "10,000 documents", text: text(strings.Repeat("a: 1\n---\n", 10001)), stream: true},
		{name: "10 MiB of separators", text: text(strings.Repeat("---\n", 10*mib/4-1)), stream: true},
		{name: "10 MiB of ConfigMaps of 1 MiB", text: func() string {
			return each(9, strings.Replace(mapHead, "name: m", "name: m%d", 1)+"data: {a: "+strings.Repeat("x", mib-100)+"}\n---\n") + fmt.Sprintf(pod, 1)
		}, stream: true},
		{name: "10 MiB of small values", text: func() string {
			return strings.Repeat(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},"data":{"a":[`+strings.Repeat("1,", 49000)+"1]}}\n", 100)
		}, stream: true},
		{name: "10 MiB as one List", text: func() string {
			return `{"apiVersion":"v1","kind":"List","items":[` + strings.Repeat(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"}},`, 9000) + "{}]}"
		}, stream: true},
		{name: "1,000 claims and 1,000 volumes", text: func() string {
			return each(1000, "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c%d}\nspec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n---\n") +
				each(1000, "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: v%d}\nspec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, hostPath: {path: /x}}\n---\n") + fmt.Sprintf(pod, 1)
		}, stream: true},
		{name: "a directory of 200 × 9 MB", text: text(mapHead + "data:\n" + each(9, "  k%d: "+strings.Repeat("x", 1000000)+"\n")), files: 200, stream: true, gate: true},
		{name: "a directory of 10,001 files", text: text("a: 1\n"), files: 10001, stream: true},
	}
}

// write creates the input's files, and returns the arguments with their names.
func (in input) write(dir string) ([]string, error) {
	content := []byte(in.text())
	if in.files == 0 {
		path := filepath.Join(dir, "in.yaml")
		return []string{"-f", path}, os.WriteFile(path, content, 0o600)
	}
	first := filepath.Join(dir, "f0.yaml")
	if err := os.WriteFile(first, content, 0o600); err != nil {
		return nil, err
	}
	for i := 1; i < in.files; i++ {
		if err := os.Link(first, filepath.Join(dir, fmt.Sprintf("f%d.yaml", i))); err != nil {
			return nil, err
		}
	}
	return []string{"-f", dir}, nil
}

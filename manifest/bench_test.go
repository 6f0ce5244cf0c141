package manifest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/podrun/podrun/manifest/input"
)

const onePod = `apiVersion: v1
kind: Pod
metadata:
  name: web
  labels:
    app: web
spec:
  containers:
  - name: app
    image: nginx:1.27
    ports:
    - containerPort: 80
    resources:
      requests:
        cpu: 100m
        memory: 64Mi
`

func BenchmarkLoad(b *testing.B) {
	source := []input.Source{{Name: "pod.yaml", Data: []byte(onePod)}}
	for b.Loop() {
		if objects, problems := Load(source, Options{}); len(objects.Pods) != 1 || len(problems) != 0 {
			b.Fatal(problems)
		}
	}
}

// BenchmarkLoadBroken includes the time to search for lines.
func BenchmarkLoadBroken(b *testing.B) {
	source := []input.Source{{Name: "pod.yaml", Data: []byte(onePod + "        cpus: 1\n")}}
	for b.Loop() {
		if _, problems := Load(source, Options{}); len(problems.Errors()) == 0 {
			b.Fatal("no problem")
		}
	}
}

func BenchmarkStaticUID(b *testing.B) {
	objects, _ := Load([]input.Source{{Name: "pod.yaml", Data: []byte(onePod)}}, Options{})
	for b.Loop() {
		StaticUID(objects.Pods[0].Object, "node1", "")
	}
}

// BenchmarkLoadObjects loads a pod with 50 ConfigMaps and Secrets of 100 keys.
func BenchmarkLoadObjects(b *testing.B) {
	var text strings.Builder
	text.WriteString(onePod)
	for i := range 50 {
		fmt.Fprintf(&text, "---\napiVersion: v1\nkind: %s\nmetadata: {name: o%d, namespace: default}\ndata:\n", []string{"ConfigMap", "Secret"}[i%2], i)
		for k := range 100 {
			fmt.Fprintf(&text, "  key%d: dmFsdWU=\n", k)
		}
	}
	source := []input.Source{{Name: "pod.yaml", Data: []byte(text.String())}}
	b.ReportAllocs()
	for b.Loop() {
		if objects, problems := Load(source, Options{}); len(objects.Secrets) != 25 || len(problems) != 0 {
			b.Fatal(problems)
		}
	}
}

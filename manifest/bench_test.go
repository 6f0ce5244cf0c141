package manifest

import "testing"

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
	source := []Source{{Name: "pod.yaml", Data: []byte(onePod)}}
	for b.Loop() {
		if objects, problems := Load(source, Options{}); len(objects.Pods) != 1 || len(problems) != 0 {
			b.Fatal(problems)
		}
	}
}

// BenchmarkLoadBroken finds lines as well.
func BenchmarkLoadBroken(b *testing.B) {
	source := []Source{{Name: "pod.yaml", Data: []byte(onePod + "        cpus: 1\n")}}
	for b.Loop() {
		if _, problems := Load(source, Options{}); len(problems.Errors()) == 0 {
			b.Fatal("no problem")
		}
	}
}

func BenchmarkStaticUID(b *testing.B) {
	objects, _ := Load([]Source{{Name: "pod.yaml", Data: []byte(onePod)}}, Options{})
	for b.Loop() {
		StaticUID(objects.Pods[0].Object, "node1")
	}
}

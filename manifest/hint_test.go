package manifest

import (
	"fmt"
	"testing"

	"github.com/podrun/podrun/manifest/input"
)

func TestQuantityHint(t *testing.T) {
	for value, want := range map[string]string{
		`"64MB"`:  "did you mean 64Mi, or 64M?",
		`"64mb"`:  "did you mean 64Mi, or 64M?",
		`"1.5GB"`: "did you mean 1.5Gi, or 1.5G?",
		`"2KiB"`:  "did you mean 2Ki, or 2k?",
		`"64 Mi"`: "did you mean 64Mi, or 64M?",
		`"100b"`:  "did you mean 100? A number without a unit is in bytes",
		`"a lot"`: "write a number with one of the units Ki, Mi, Gi, or m for thousandths, such as 128Mi or 500m",
	} {
		if got := QuantityHint(value); got != want {
			t.Errorf("%s: got %q, want %q", value, got, want)
		}
	}
}

// These are typical mistakes of new users. Each message must contain the text to type instead.
func TestHintsOfMistakes(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n  containers:\n  - name: c\n    image: a\n%s"
	for name, tc := range map[string]struct{ file, text, want string }{
		"compose file":         {"x/compose.yaml", "services:\n  web: {image: nginx}\n", "x/compose.yaml:1: kind: this is a Compose file, not a Kubernetes object (run 'kompose convert -f x/compose.yaml --stdout | podrun apply -f -')"},
		"chart":                {"x/Chart.yaml", "apiVersion: v2\nname: a\nversion: 0.1.0\n", "x/Chart.yaml:1: kind: this is a Helm chart, not a Kubernetes object (run 'helm template x | podrun apply -f -')"},
		"kustomization":        {"kustomization.yaml", "resources: [pod.yaml]\n", "kustomization.yaml:1: kind: this is a kustomization, not a Kubernetes object (run 'podrun apply -k .')"},
		"kind Kustomization":   {"x/k.yaml", "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n", "x/k.yaml:2: Kustomization: kind: this is a kustomization, not a Kubernetes object (run 'podrun apply -k x')"},
		"binary":               {"ls", "\x7fELF\x02\x01\x01\x00\x00", "ls: this is a binary file, not a manifest (name a manifest in YAML or JSON)"},
		"compressed archive":   {"i.tgz", "\x1f\x8b\x08\x00", "i.tgz: this is a binary file, not a manifest (name a manifest; to load the images of an archive, run 'podrun image load i.tgz')"},
		"unit of another tool": {"f", fmt.Sprintf(pod, "m1", "    resources: {limits: {memory: 64MB}}\n"), "f:8: Pod default/m1: spec.containers[0].resources.limits[memory]: not a valid quantity: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$' (did you mean 64Mi, or 64M?)"},
		"undeclared volume":    {"f", fmt.Sprintf(pod, "m1", "    volumeMounts: [{name: data, mountPath: /data}]\n"), `f:8: Pod default/m1: spec.containers[0].volumeMounts[0].name: Not found: "data" (add a volume with the name data to spec.volumes)`},
		"case of a value":      {"f", fmt.Sprintf(pod, "m1", "  restartPolicy: never\n"), `f:8: Pod default/m1: spec.restartPolicy: Unsupported value: "never": supported values: "Always", "OnFailure", "Never" (did you mean Never?)`},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := Load([]input.Source{{Name: tc.file, Data: []byte(tc.text)}}, Options{})
			if len(problems) != 1 || problems[0].String() != tc.want {
				t.Errorf("got %q\nwant %q", problems, tc.want)
			}
		})
	}
}

// A suggested name must be valid.
func TestValidName(t *testing.T) {
	for name, want := range map[string]string{"MyPod": "mypod", "my_pod": "my-pod", "-a-": "a", "a b": "a-b", "___": "", "web.1": "web.1"} {
		if got := validName(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

package hostile

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/podrun/podrun/test/ring"
)

// TestQuantities checks that podrun immediately rejects a quantity in the settings that has a huge
// exponent. Kubernetes' parser would take minutes, because it computes each digit.
func TestQuantities(t *testing.T) {
	ring.RequireRoot(t)
	base := serveFake(t)
	const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	pod := podHead + "  - {name: c, image: i}\n"
	for name, test := range map[string]struct {
		config, pod string
		flags       []string
	}{
		"evictionHard":           {config: "evictionHard: {memory.available: \"1e-99999999\"}\n", pod: pod},
		"evictionMinimumReclaim": {config: "evictionMinimumReclaim: {memory.available: \"1e-99999999\"}\n", pod: pod},
		"containerLogMaxSize":    {config: "containerLogMaxSize: \"1e-99999999\"\n", pod: pod},
		"kubeReserved":           {config: "kubeReserved: {memory: \"1e-99999999\"}\n", pod: pod},
		// podrun decodes this field, but does not use it.
		"reservedMemory":    {config: "reservedMemory: [{numaNode: 0, limits: {memory: \"1e-99999999\"}}]\n", pod: pod},
		"--system-reserved": {flags: []string{"--system-reserved=memory=1e-99999999"}, pod: pod},
		"spaces":            {pod: list("resources", "      limits: {memory: \"1e-99999999 \"}\n")},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			config, file := filepath.Join(dir, "kubelet.yaml"), filepath.Join(dir, "pod.yaml")
			for path, text := range map[string]string{config: head + test.config, file: test.pod} {
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			m := measure(t, base, input{name: name}, []string{"plan", "--config=" + config}, append(test.flags, file))
			if m.code < 120 || m.code > 122 || m.took > slack*2*time.Second || m.memory > slack*150 {
				t.Errorf("code %d after %.1f s with %d MB: %.300s", m.code, m.took.Seconds(), m.memory, m.said)
			}
		})
	}
}

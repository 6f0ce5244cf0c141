package admission

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	k8scorev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
)

// recordings is the directory with the pods of a real kubelet, and with its calls and events.
const recordings = "../../shared/kubelet-golden"

// TestKubeletRefusals compares admission with a kubelet v1.36.3. The kubelet's events show
// which pods it admitted and refused.
func TestKubeletRefusals(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(recordings, "fake", "*.json"))
	if err != nil || len(files) == 0 {
		t.Skip("the recordings are not on this machine")
	}
	facts := largeHost()
	facts.Capacity["hugepages-2Mi"] = resource.MustParse("1Gi")
	facts.Runtime.Version = "2.4.2" // supports image volumes
	facts.Runtime.HandlersOK = true
	facts.Runtime.Handlers = map[string]host.RuntimeHandler{"": {UserNamespaces: true, RecursiveReadOnlyMounts: true}}
	facts.Runtime.Features = map[string]bool{"supplementalGroupsPolicy": true}
	admitted, refused := 0, 0
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		var rec struct {
			Sandboxes []any
			Events    []string
			Log       []string
		}
		decode(t, file, func(b []byte) error { return json.Unmarshal(b, &rec) })
		if len(rec.Log) > 0 || strings.Contains(strings.Join(rec.Events, ""), "FailedMount") {
			// The kubelet refused the pod by rules for static pods, or after admission.
			continue
		}
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{}
			decode(t, filepath.Join(recordings, "pods", name+".yaml"), func(b []byte) error { return yaml.Unmarshal(b, pod) })
			k8scorev1.SetObjectDefaults_Pod(pod)
			// manifest.Load sets the namespace.
			pod.UID, pod.Namespace = uid, "default"
			var got []string
			for _, p := range Check(Pod{Pod: pod}, facts, nodeconfig.Default(), Options{}).Errors() {
				got = append(got, "Warning "+p.Reason+": "+p.Message)
			}
			if len(rec.Sandboxes) > 0 {
				admitted++
				if len(got) > 0 {
					t.Errorf("the kubelet runs the pod, podrun reports %q", got)
				}
				return
			}
			refused++
			if !slices.Equal(got, rec.Events) {
				t.Errorf("podrun says %q, the kubelet %q", got, rec.Events)
			}
		})
	}
	if admitted < 29 || refused < 2 {
		t.Errorf("only %d admitted and %d refused pods compared", admitted, refused)
	}
}

func decode(t *testing.T, file string, into func([]byte) error) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err == nil {
		err = into(data)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

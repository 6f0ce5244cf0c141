package parity

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// golden contains the part of a recording that the plans of sandboxes and containers must
// reproduce.
type golden struct {
	Sandboxes  []struct{ Config map[string]any }
	Containers map[string][]map[string]any // configs by container name, one for each attempt
	Files      map[string]struct{ Text string }
}

// shared returns the directory of the recordings and the recorded pods.
func shared(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("PODRUN_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared")
	}
	if _, err := os.Stat(filepath.Join(dir, "kubelet-golden")); err != nil {
		t.Skipf("no recordings of a kubelet (%v): set PODRUN_SHARED to the directory that has kubelet-golden", err)
	}
	return dir
}

// recordings lists the goldens of a set by name.
func recordings(t *testing.T, dir, set string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "kubelet-golden", set, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings in %s/kubelet-golden/%s: %v", dir, set, err)
	}
	return files
}

// manifestOf returns the recorded pod. The name of a golden of the corpus is that of the pod's
// file, in lower case.
func manifestOf(t *testing.T, dir, set, name string) string {
	t.Helper()
	if set != "corpus" {
		return filepath.Join(dir, "kubelet-golden", "pods", name+".yaml")
	}
	all, err := filepath.Glob(filepath.Join(dir, "corpus", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		base := strings.ToLower(filepath.Base(f))
		if strings.TrimSuffix(base, filepath.Ext(base)) == name {
			return f
		}
	}
	t.Fatalf("the corpus has no %s", name)
	return ""
}

// readGolden reads a recording. It replaces words in angle brackets with this test's values if such
// a word has the same value throughout the recording.
func readGolden(t *testing.T, file string, words *strings.Replacer) golden {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// JSON may escape the angle brackets of such words.
	text := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(raw))
	var g golden
	if err := json.Unmarshal([]byte(words.Replace(text)), &g); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return g
}

// asRecorded converts a message to the form of a recording: protojson with the names of
// the .proto file.
func asRecorded(t *testing.T, m proto.Message) map[string]any {
	t.Helper()
	raw, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// containerAsRecorded is asRecorded for the config of a container. It makes variables readable, and
// sorts them by name, because the kubelet sends them in random order.
func containerAsRecorded(t *testing.T, config *runtimeapi.ContainerConfig) map[string]any {
	t.Helper()
	out := asRecorded(t, config)
	delete(out, "envs")
	var env []any
	for _, kv := range slices.SortedFunc(slices.Values(config.Envs), func(a, b *runtimeapi.KeyValue) int {
		return strings.Compare(a.Key, b.Key)
	}) {
		env = append(env, kv.Key+"="+string(kv.Value))
	}
	if env != nil {
		out["envs"] = env
	}
	return out
}

// flatten lists the leaves of a tree by path. Empty messages are also leaves. It sorts DNS options,
// as in the recordings, because the kubelet sends them in random order.
func flatten(prefix string, v any, into map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			into[prefix] = "{}"
		}
		for k, child := range v {
			flatten(prefix+"."+k, child, into)
		}
	case []any:
		if strings.HasSuffix(prefix, ".options") {
			slices.SortFunc(v, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
		for i, child := range v {
			flatten(fmt.Sprintf("%s[%d]", prefix, i), child, into)
		}
	default:
		if strings.HasSuffix(prefix, ".host_id") {
			v = "<HOSTID>" // any free range is correct
		}
		into[prefix] = fmt.Sprint(v)
	}
}

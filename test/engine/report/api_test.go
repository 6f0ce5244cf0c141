package report

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	promodel "github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podrun/podrun/serve"
	"github.com/podrun/podrun/serve/nodeapi"
	"github.com/podrun/podrun/test/engine/rig"
	"github.com/podrun/podrun/test/patience"
)

// TestServeAPISocketIsOutsideRootDir covers a volume that contains the root directory. The volume
// must not give access to the API, because the socket is elsewhere. podrun's own commands must find
// the socket.
func TestServeAPISocketIsOutsideRootDir(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	rig.API(t, r, serve.Options{Dirs: []string{t.TempDir()}})
	found := filepath.WalkDir(r.Layout().RootDir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type()&fs.ModeSocket != 0 {
			t.Errorf("%s is a socket", path)
		}
		return err
	})
	if found != nil {
		t.Error(found)
	}
	if _, err := serve.ReadSources(t.Context(), r.Layout()); err != nil {
		t.Error(err)
	}
	if c, err := nodeapi.DialUnix(t.Context(), r.Layout().Serve().APILink()); err != nil {
		t.Errorf("an earlier release's path: %v", err)
	} else {
		c.Close()
	}
	other := r.Layout()
	other.RootDir += "2"
	if other.APISocket() == r.Layout().APISocket() {
		t.Error("two root directories share a socket")
	}
}

// TestServeAPIStatusSocket checks that monitoring can read the state of pods, but not the content
// of their manifests.
func TestServeAPIStatusSocket(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	manifest := strings.Replace(apiPod, "{name: app,", "{name: app, env: [{name: PASSWORD, value: hunter2}],", 1)
	if manifest == apiPod {
		t.Fatal("no container named app")
	}
	dir := rig.DirWith(t, "web.yaml", manifest)
	status := r.Layout().StatusSocket()
	get := rig.API(t, r, serve.Options{Dirs: []string{dir}, API: serve.APIOptions{Status: serve.APISocket{Path: status, Link: r.Layout().Serve().StatusLink()}}})
	rig.Eventually(t, "the pod runs", func() bool {
		_, body := get("/pods")
		return strings.Contains(body, `"phase":"Running"`)
	})
	if _, body := get("/pods"); !strings.Contains(body, "hunter2") {
		t.Errorf("the pod has no variable: %s", body)
	}
	c := patience.Client(t, &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return nodeapi.DialUnix(ctx, r.Layout().Serve().StatusLink())
	}})
	for path, want := range map[string]string{"/pods": `"phase":"Running"`, "/metrics": "kubelet_running_pods", "/containerLogs/default/web/app": "this socket serves only"} {
		resp, err := c.Get("http://podrun" + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !strings.Contains(string(body), want) || strings.Contains(string(body), "hunter2") {
			t.Errorf("%s: %v %s", path, err, body)
		}
	}
	if entry, err := os.Stat(status); err != nil || entry.Mode().Perm()&0o007 != 0 {
		t.Errorf("%v %v", entry, err)
	}
}

// TestServeAPIOfEarlierRelease covers a supervisor of an earlier release, which has its socket
// below the root directory.
func TestServeAPIOfEarlierRelease(t *testing.T) {
	t.Parallel()
	layout := rig.New(t).Layout()
	l, err := nodeapi.ListenUnix(nodeapi.Socket{Path: layout.Serve().APILink()})
	if err != nil {
		t.Fatal(err)
	}
	old := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `[{"name":"/old"}]`) })}
	go old.Serve(l)
	defer old.Close()
	if got, err := serve.ReadSources(t.Context(), layout); err != nil || len(got) != 1 || got[0].Name != "/old" {
		t.Errorf("%v, %v", got, err)
	}
}

const apiPod = `apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - {name: app, image: "registry.example/app:1"}
`

func TestServeAPI(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	dir := rig.DirWith(t, "web.yaml", apiPod)
	get := rig.API(t, r, serve.Options{Dirs: []string{dir}})
	var pods corev1.PodList
	rig.Eventually(t, "the pod runs", func() bool {
		code, body := get("/pods")
		pods = corev1.PodList{}
		return code == 200 && json.Unmarshal([]byte(body), &pods) == nil && len(pods.Items) == 1 && pods.Items[0].Status.Phase == corev1.PodRunning
	})
	if code, body := get("/readyz"); code != 200 || body != "ok" {
		t.Errorf("/readyz: %d %s", code, body)
	}
	// serve counts pods and containers in its last list of the runtime, which may be older than the container's start.
	var metrics string
	var lacks []string
	defer func() {
		if len(lacks) > 0 {
			t.Errorf("/metrics lacks %q:\n%s", lacks, metrics)
		}
	}()
	rig.Eventually(t, "the metrics count the pod and its container", func() bool {
		_, metrics = get("/metrics")
		lacks = nil
		for _, want := range []string{"\nkubelet_running_pods 1\n", "\nkubelet_pod_start_duration_seconds_count 1\n", `kubelet_running_containers{container_state="running"} 1`, `kubelet_started_containers_total{container_type="container"} 1`,
			`podrun_container_restarts_total{container="app",namespace="default",pod="web"} 0`, `podrun_source_up{source="` + dir + `"} 1`, `podrun_supervised_pods{state="supervised"} 1`} {
			if !strings.Contains(metrics, want) {
				lacks = append(lacks, want)
			}
		}
		return len(lacks) == 0
	})
	parser := expfmt.NewTextParser(promodel.LegacyValidation)
	if _, err := parser.TextToMetricFamilies(strings.NewReader(metrics)); err != nil {
		t.Error(err)
	}
	if code, body := get("/events?pod=web"); code != 200 || !strings.Contains(body, `"reason":"Started"`) {
		t.Errorf("/events: %d %s", code, body)
	}
	if code, body := get("/containerLogs/default/web/app?tailLines=1"); code != 200 {
		t.Errorf("/containerLogs: %d %s", code, body)
	}
	var stats statsapi.Summary
	if code, body := get("/stats/summary"); code != 200 || json.Unmarshal([]byte(body), &stats) != nil || len(stats.Pods) != 1 {
		t.Fatalf("/stats/summary: %d %s", code, body)
	}
	if p := stats.Pods[0]; p.CPU == nil || p.Memory == nil || *p.CPU.UsageCoreNanoSeconds != 0 || len(p.Containers) != 1 || *p.Containers[0].CPU.UsageCoreNanoSeconds != 1e9 {
		t.Errorf("/stats/summary: the pod's own usage is not that of its cgroup: %+v", p)
	}
	for path, want := range map[string]int{"/containerLogs/default/none/app": 404, "/containerLogs/default/web/none": 400} {
		if code, body := get(path); code != want {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

// TestServeAPIBrokenSource checks that /readyz and /sources show the problems of a source, and
// that the source's pods continue to run.
func TestServeAPIBrokenSource(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	dir := rig.DirWith(t, "web.yaml", apiPod)
	path := filepath.Join(dir, "web.yaml")
	get := rig.API(t, r, serve.Options{Dirs: []string{dir, filepath.Join(dir, "none")}})
	if code, body := get("/readyz"); code != 503 || !strings.Contains(body, "[-]source "+filepath.Join(dir, "none")+" failed: ") {
		t.Errorf("/readyz: %d %s", code, body)
	}
	if err := os.WriteFile(path, []byte("kind: [broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, "the broken file is shown", func() bool {
		_, body := get("/readyz")
		return strings.Contains(body, "[-]source "+dir+" failed: "+path)
	})
	if code, body := get("/healthz"); code != 200 {
		t.Errorf("/healthz: %d %s", code, body)
	}
	if _, body := get("/sources"); !strings.Contains(body, `"state":"Unreachable"`) || !strings.Contains(body, `"pods":1`) {
		t.Errorf("/sources: %s", body)
	}
}

// TestServeRemote checks that pods of a URL start, remain while the server fails, even after a
// restart of serve, and are removed when the URL returns an empty list.
func TestServeRemote(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	var text atomic.Pointer[string]
	set := func(s string) { text.Store(&s) }
	site := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if *text.Load() == "" {
			w.WriteHeader(http.StatusBadGateway)
		}
		io.WriteString(w, *text.Load())
	}))
	defer site.Close()
	o := serve.Options{Dirs: []string{site.URL + "/pods.yaml?token=s3cret"}, Remote: serve.RemoteOptions{Every: 50 * time.Millisecond,
		Trust: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: site.Certificate().Raw})}}
	running := func(get func(string) (int, string)) bool {
		_, body := get("/pods")
		return strings.Contains(body, `"phase":"Running"`)
	}
	var first string
	t.Run("start", func(t *testing.T) {
		set(apiPod)
		get := rig.API(t, r, o)
		rig.Eventually(t, "the pod of the URL runs", func() bool { return running(get) })
		set("")
		rig.Eventually(t, "the failure is shown", func() bool {
			code, body := get("/readyz")
			return code == 503 && strings.Contains(body, "[-]source "+site.URL+"/pods.yaml failed: the server returned 502")
		})
		if c, _ := r.Runtime.Container("app"); running(get) {
			first = c.ID
		}
		r.KeepPods = true
	})
	t.Run("boot without the server", func(t *testing.T) {
		r.KeepPods = false
		get := rig.API(t, r, o)
		rig.Eventually(t, "the server was asked", func() bool {
			_, body := get("/sources")
			return strings.Contains(body, "502") && !strings.Contains(body, "s3cret")
		})
		if c, _ := r.Runtime.Container("app"); c.ID != first || !running(get) {
			t.Errorf("the pod was changed: %+v", c)
		}
		set("{apiVersion: v1, kind: List, items: []}")
		rig.Eventually(t, "the pod is deleted", func() bool {
			_, body := get("/pods")
			return strings.Contains(body, `"items":[]`)
		})
	})
}

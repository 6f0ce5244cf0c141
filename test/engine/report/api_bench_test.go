package report

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podrun/podrun/serve"
	"github.com/podrun/podrun/test/engine/rig"
)

// BenchmarkScrape measures one scrape of /metrics of a supervisor with 100 pods. The limit
// is 50 ms.
func BenchmarkScrape(b *testing.B) {
	const pods = 100
	r := rig.New(b)
	dir := b.TempDir()
	for i := range pods {
		name := fmt.Sprintf("web-%d", i)
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(rig.ServedPod(name)), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	get := rig.API(b, r, serve.Options{Dirs: []string{dir}})
	var metrics string
	rig.Eventually(b, "all pods run", func() bool {
		_, metrics = get("/metrics")
		return strings.Contains(metrics, fmt.Sprintf("\nkubelet_running_pods %d\n", pods))
	})
	for b.Loop() {
		if code, _ := get("/metrics"); code != 200 {
			b.Fatal(code)
		}
	}
	b.ReportMetric(float64(len(metrics)), "bytes")
}

package result

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSummarize(t *testing.T) {
	ten := []float64{3, 1, 2, 4, 5, 6, 7, 8, 9, 100}
	for _, c := range []struct {
		name    string
		samples []float64
		want    Statistic
	}{
		{"none", nil, Statistic{}},
		{"one", []float64{5}, Statistic{1, 5, 5, 5, 5, 5}},
		{"too few for an interval: the range", []float64{2, 1, 9}, Statistic{3, 1, 2, 9, 1, 9}},
		{"an outlier", ten, Statistic{10, 1, 5.5, 100, 1, 100}},
		{"digits", []float64{1.23456789, 1.23456789}, Statistic{2, 1.2346, 1.2346, 1.2346, 1.2346, 1.2346}},
	} {
		if diff := cmp.Diff(c.want, Summarize(c.samples)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
	if ten[0] != 3 {
		t.Error("Summarize changed the samples")
	}
}

func TestVerdict(t *testing.T) {
	near := func(v float64, n int) []float64 {
		var out []float64
		for i := range n {
			out = append(out, v+float64(i%5-2)/100)
		}
		return out
	}
	for _, c := range []struct {
		name   string
		ratios []float64
		want   Verdict
	}{
		{"slower", near(1.1, 25), Slower},
		{"faster", near(0.9, 25), Faster},
		{"within noise", near(1.01, 25), Equal},
		{"one outlier changes nothing", append(near(1, 24), 9), Equal},
		{"an outlier does not hide a change", append(near(1.1, 24), 0.1), Slower},
		{"too few", near(1.1, 5), TooFew},
	} {
		if got := Summarize(c.ratios).Verdict(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	row := NewRow("r", "ms", []float64{11, 22, 33, 44, 55, 66, 77, 88}, []float64{10, 20, 30, 40, 50, 60, 70, 80})
	if row.Old.Verdict != Slower || row.Old.Change.Median != 1.1 {
		t.Errorf("pairs of a machine that becomes slower: %+v", row.Old)
	}
}

// runs returns four runs with a ratio; the first of them is too old to count.
func runs() []Result {
	var all []Result
	for i, median := range []float64{9, 1.1, 1.3, 1.2} {
		all = append(all, Result{Target: "bench", Time: time.Date(2026, 11, 1+i, 12, 0, 0, 0, time.UTC), Commit: "c", Machine: "m", Kernel: "6.1", Load: "0 0 0", Rows: []Row{
			{Name: "wall, 1 container", Unit: Ratio, Statistic: Statistic{25, median - 0.3, median, median + 0.4, median - 0.05, median + 0.05},
				Programs: []Program{{"podrun", Statistic{Median: 100 * median}, 12_700 + float64(i), 92}, {"bare client", Statistic{Median: 100}, 10_000, 80}}},
			{Name: "delete of 1 pod", Unit: Ratio, Statistic: Statistic{25, 0.8, 1.01, 1.3, 0.97, 1.06}},
			{Name: "requests to the registry, image present", Statistic: Statistic{1, 0, 0, 0, 0, 0}},
		}})
	}
	return all
}

func TestTables(t *testing.T) {
	all := runs()
	table := Table(all, false)
	for _, want := range []string{
		"relative to the bare client | ≤ 1.11 × | 1.20 × (0.80 to 1.70; podrun 120 ms, bare client 100 ms) |",
		"`delete` of 1 pod, relative to the bare client | ≤ 1.08 × | equal: 1.01 × (0.80 to 1.30) |",
		"image is present | 0 | 0 |",
		"| binary | ≤ 48 MB | not measured yet |",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, table)
		}
	}
	if short := Table(all, true); strings.Contains(short, "delete") || !strings.Contains(short, "| 1.20 × (0.80 to 1.70) |") {
		t.Errorf("README's table:\n%s", short)
	}
	if counters := CounterTable(all); !strings.Contains(counters, "| wall, 1 container | podrun | 12,702 | 92 |\n| wall, 1 container | bare client | 10,000 | 80 |\n") {
		t.Errorf("counters:\n%s", counters)
	}
	if runs := RunTable(all); strings.Contains(runs, "2026-11-01") || !strings.Contains(runs, "2026-11-02") {
		t.Errorf("the runs are not the last three:\n%s", runs)
	}
}

// TestNewestPeer checks that README.md shows the newest podman that was measured, with its version.
func TestNewestPeer(t *testing.T) {
	all := []Result{{Versions: map[string]string{"podman": "4.3.1"}, Rows: []Row{{Name: "wall, 1 container, against podman kube play", Unit: Ratio}}}}
	if short := Table(all, true); !strings.Contains(short, "relative to `podman kube play` |") {
		t.Errorf("only podman 4:\n%s", short)
	}
	all = append(all, Result{Versions: map[string]string{"podman 5": "5.4.2"}, Rows: []Row{{Name: "wall, 1 container, against podman 5 kube play", Unit: Ratio}}})
	if short := Table(all, true); strings.Contains(short, "`podman kube play` |") || !strings.Contains(short, "of podman 5.4.2") {
		t.Errorf("both:\n%s", short)
	}
	if long := Table(all, false); !strings.Contains(long, "relative to `podman kube play` |") || !strings.Contains(long, "of podman 5.4.2") {
		t.Errorf("docs/speed.md:\n%s", long)
	}
}

func TestDensityTable(t *testing.T) {
	all := []Result{{Target: "bench-density", Rows: []Row{
		{Name: DensityName(DensityBoot, 250), Unit: "ms", Statistic: Statistic{1, 120, 120, 120, 120, 120}},
		{Name: KubeletDensityName(DensityBoot, 110), Unit: "ms", Statistic: Statistic{1, 360, 360, 360, 360, 360}},
	}}}
	if table := DensityTable(all); !strings.Contains(table, "| pods | 110 | 250 | 500 | 110, kubelet |\n") || !strings.Contains(table, "| start at boot, for each pod | not measured yet | 120.0 ms | not measured yet | 360.0 ms |\n") {
		t.Errorf("%s", table)
	}
	if runs := RunTable(all); !strings.Contains(runs, "make bench-density") {
		t.Errorf("%s", runs)
	}
}

func TestFile(t *testing.T) {
	dir := t.TempDir()
	all := runs()
	for _, r := range slices.Backward(all) {
		if _, err := Write(dir, r); err != nil {
			t.Fatal(err)
		}
	}
	got, err := ReadAll(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(all, got); diff != "" {
		t.Error(diff)
	}
}

package discover

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
)

// podrun must be able to read a usable snapshot of this machine quickly. If the snapshot is
// converted to JSON and back, it must be the same, because plans are replayed from it.
func TestReadThisMachine(t *testing.T) {
	start := time.Now()
	s := nodeconfig.Default()
	facts, err := Read(t.Context(), nil, s, Options{Listeners: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("read in %s", time.Since(start))
	if len(facts.NodeIPs) == 0 || facts.NodeName == "" || facts.Capacity.Cpu().IsZero() || facts.Capacity.Memory().IsZero() {
		t.Errorf("facts lack the essentials: %+v", facts)
	}
	if facts.Cgroup.Version == 0 || len(facts.Cgroup.Controllers) == 0 || facts.Cgroup.Driver == "" {
		t.Errorf("cgroup facts: %+v", facts.Cgroup)
	}
	data, err := json.Marshal(facts)
	if err != nil {
		t.Fatal(err)
	}
	var back host.Facts
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(back)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(data), string(again)); diff != "" {
		t.Errorf("facts changed on their way through JSON (-was +is):\n%s", diff)
	}
}

func BenchmarkRead(b *testing.B) {
	s := nodeconfig.Default()
	for b.Loop() {
		if _, err := Read(context.Background(), nil, s, Options{Listeners: true}); err != nil {
			b.Fatal(err)
		}
	}
}

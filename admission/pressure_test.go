package admission

import (
	"testing"

	"github.com/podrun/podrun/nodeconfig"
)

// The hint has the figures: what there is, and what the setting wants.
func TestPressureHint(t *testing.T) {
	s := &scene{pod: plain(), facts: room(), settings: nodeconfig.Default()}
	low("nodefs")(s)
	low("pid")(s)
	s.facts.PIDs.Used = 950
	found := Check(Pod{Pod: s.pod}, s.facts, s.settings, Options{})
	const want = "the node is low on disk space of /var/lib/podrun: nodefs.available is 10239Mi, evictionHard keeps 10Gi, " +
		"the node is low on process ids: pid.available is 50, evictionHard keeps 100: free resources, or lower evictionHard"
	if len(found) != 1 || found[0].Hint != want {
		t.Errorf("got %+v, want the hint %q", found, want)
	}
}

package run

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/node"
)

// TestUIDDependsOnRootDir: the same file under two root directories is two pods, whatever
// the spelling of a directory, and `plan`, also of recorded facts, knows their UIDs.
func TestUIDDependsOnRootDir(t *testing.T) {
	a, b := newRig(t), newRig(t)
	text := podText("web", "Always", "containers: [{name: app, image: registry.example/app:1}]")
	first, second := a.mustApply(text, OutcomeCreated), b.mustApply(text, OutcomeCreated)
	defer a.mustDelete()
	defer b.mustDelete()
	pod := load(t, text).Pods[0].Object
	if first.ID.UID == second.ID.UID || first.ID.UID == manifest.StaticUID(pod, "node-a", "") {
		t.Errorf("UIDs %s and %s", first.ID.UID, second.ID.UID)
	}
	facts, err := a.engine().ReadFacts(t.Context(), load(t, text), true)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(facts)
	if err != nil {
		t.Fatal(err)
	}
	var recorded host.Facts
	if err := json.Unmarshal(data, &recorded); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(a.settings.RootDir, link); err != nil {
		t.Fatal(err)
	}
	linked := a.engine()
	linked.Settings.RootDir = link
	for name, e := range map[string]*Engine{"recorded facts": b.engine(), "the same directory": linked} {
		facts, err := e.ReadFacts(t.Context(), load(t, text), true)
		if err != nil {
			t.Fatal(err)
		}
		if facts.Pods = nil; name == "recorded facts" {
			facts = recorded
		}
		targets, _, err := e.Prepare(t.Context(), load(t, text), node.PrepareOptions{AllowKubelet: true, Facts: &facts})
		if err != nil || targets[0].UID != first.ID.UID {
			t.Errorf("%s: planned as %s (%v), want %s", name, targets[0].UID, err, first.ID.UID)
		}
	}
}

// TestUpgradeRootDirInUID: a pod that a podrun made whose UIDs did not depend on the root
// directory stays as it is, until it is replaced.
func TestUpgradeRootDirInUID(t *testing.T) {
	r := newRig(t)
	defer r.mustDelete()
	text := podText("web", "Always", "containers: [{name: app, image: registry.example/app:1}]")
	old := manifest.StaticUID(load(t, text).Pods[0].Object, "node-a", "")
	r.mustApply(strings.Replace(text, "name: web", "name: web, uid: "+old, 1), OutcomeCreated)
	r.rt.ForgetCalls()
	if again := r.mustApply(text, OutcomeUnchanged); again.ID.UID != old || len(again.What) > 0 {
		t.Errorf("pod %v (%q), want UID %s", again.ID, again.What, old)
	}
	pods := r.known()
	options := ApplyOptions{Timeout: testTimeout, AllowKubelet: true}
	if results, err := r.engine().Start(t.Context(), pods, options); err != nil || results[0].Err != nil || results[0].Outcome != OutcomeUnchanged || results[0].ID.UID != old {
		t.Errorf("start: %+v, %v", results, err)
	}
	wantChanges(t, r.rt)
	updated := r.mustApply(strings.Replace(text, "app:1", "app:2", 1), OutcomeUpdated)
	if updated.ID.UID != old {
		t.Errorf("update: pod %v", updated.ID)
	}
	if replaced := r.mustApply(strings.Replace(text, "app:1", "app:1, command: [sh]", 1), OutcomeReplaced); replaced.ID.UID == old {
		t.Errorf("replaced: pod %v", replaced.ID)
	}
}

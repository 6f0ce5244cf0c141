package store

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/podrun/podrun/internal/identity"
)

// FuzzHistory reads a history file with any content. If a version of podrun of the same schema wrote it, the next definition is
// recorded and can be read again, whatever the file contained, and so is the last good definition.
func FuzzHistory(f *testing.F) {
	dir := f.TempDir()
	layout := identity.Layout{RootDir: filepath.Join(dir, "root"), RunDir: filepath.Join(dir, "run")}
	a, b, c := revisionOf("a", ""), revisionOf("b", "old"), revisionOf("c", "new")
	if err := KeepRevision(layout, historyID, a, b, historyID.UID, time.Unix(1, 0)); err != nil {
		f.Fatal(err)
	}
	if err := KeepGood(layout, historyID, LastGood{Made: a, Hash: "h"}); err != nil {
		f.Fatal(err)
	}
	seed, err := os.ReadFile(layout.History(historyID))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(layout.History(historyID), data, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := readHistory(layout, historyID)
		if IsNewer(err) {
			if err := KeepRevision(layout, historyID, b, c, historyID.UID, time.Unix(2, 0)); err != nil {
				t.Errorf("a newer history: %v", err)
			}
			return
		}
		_, _ = ReadGood(layout, historyID) // may fail: the next good definition replaces it
		if err := KeepRevision(layout, historyID, b, c, historyID.UID, time.Unix(2, 0)); err != nil {
			t.Fatalf("record: %v", err)
		}
		all, err := Revisions(layout, historyID, c)
		if err != nil || len(all) < 2 || len(all) > maxRevisions || all[len(all)-2].Made.Pod.Spec.Containers[0].Image != "b" {
			t.Fatalf("%d revisions: %v", len(all), err)
		}
		if err := KeepGood(layout, historyID, LastGood{Made: c, Hash: "h"}); err != nil {
			t.Fatalf("record the good one: %v", err)
		}
		if good, err := ReadGood(layout, historyID); err != nil || good == nil || good.Made.Pod.Spec.Containers[0].Image != "c" {
			t.Fatalf("the good one: %+v, %v", good, err)
		}
	})
}

package store

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/manifest"
)

func good(t *testing.T, layout identity.Layout, c manifest.Checkpoint) *LastGood {
	t.Helper()
	if err := KeepGood(layout, historyID, LastGood{Made: c, Hash: c.Hash()}); err != nil {
		t.Fatal(err)
	}
	return readGood(t, layout)
}

func readGood(t *testing.T, layout identity.Layout) *LastGood {
	t.Helper()
	g, err := ReadGood(layout, historyID)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestLastGood checks that later revisions, however many, neither replace the last good definition nor remove its objects.
func TestLastGood(t *testing.T) {
	layout := identity.Layout{RootDir: t.TempDir()}
	if g := readGood(t, layout); g != nil {
		t.Errorf("before the first one: %+v", g)
	}
	c := revisionOf("good", "config")
	c.Images = map[string]string{"good": "sha256:1"}
	g := good(t, layout, c)
	if g.Hash != c.Hash() || len(g.Made.ConfigMaps) != 1 || string(g.Made.Secrets[0].Data["key"]) != "value" || !reflect.DeepEqual(g.Made.Images, c.Images) {
		t.Errorf("%+v", g)
	}
	before := c
	for i := range 3 * maxRevisions {
		next := revisionOf(fmt.Sprint("bad", i), "config")
		keep(t, layout, before, next)
		before = next
	}
	if again := readGood(t, layout); !reflect.DeepEqual(again, g) {
		t.Errorf("after many revisions: %+v, want %+v", again, g)
	}
	if revisions, err := Revisions(layout, historyID, before); err != nil || len(revisions) != maxRevisions {
		t.Errorf("%d revisions: %v", len(revisions), err)
	}
	// It belongs to the pod with this UID.
	if g, err := ReadGood(layout, identity.Pod{Namespace: "default", Name: "web", UID: "another"}); g != nil || err != nil {
		t.Errorf("of another pod: %+v, %v", g, err)
	}
	if err := WriteUpdate(layout, historyID, UpdateRecord{State: UpdateGood, Images: []string{"sha256:1"}}); err != nil {
		t.Fatal(err)
	}
	if images, err := LastGoodImages(layout); err != nil || !reflect.DeepEqual(images, []string{"sha256:1"}) {
		t.Errorf("images %v, %v", images, err)
	}
	if err := removeHistory(layout, historyID); err != nil {
		t.Fatal(err)
	}
	if u, err := ReadUpdate(layout, historyID); readGood(t, layout) != nil || u != nil || err != nil {
		t.Errorf("after the removal: %+v, %v", u, err)
	}
}

// TestLastGoodOfOlderPodrun reads a history that a podrun without last good definitions wrote, and one that it has rewritten.
func TestLastGoodOfOlderPodrun(t *testing.T) {
	layout := identity.Layout{RootDir: t.TempDir()}
	keep(t, layout, revisionOf("a", ""), revisionOf("b", ""))
	if g := readGood(t, layout); g != nil {
		t.Errorf("%+v", g)
	}
	data, err := os.ReadFile(layout.History(historyID))
	if err != nil || strings.Contains(string(data), "lastGood") || !strings.HasPrefix(string(data), "# podrun schema 1\n") {
		t.Fatalf("%s, %v", data, err)
	}
	good(t, layout, revisionOf("b", ""))
	if got := shownHistory(t, layout, revisionOf("b", "")); got != "1:a 2:b" {
		t.Errorf("history %q", got)
	}
	if err := os.WriteFile(layout.History(historyID), data, 0o600); err != nil { // the older one drops the field
		t.Fatal(err)
	}
	if g := readGood(t, layout); g != nil {
		t.Errorf("%+v", g)
	}
	if err := os.WriteFile(layout.History(historyID), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadGood(layout, historyID); !IsCorrupt(err) {
		t.Errorf("of a corrupt history: %v", err)
	}
	if g := good(t, layout, revisionOf("c", "")); g == nil || g.Made.Pod.Spec.Containers[0].Image != "c" {
		t.Errorf("after a corrupt history: %+v", g)
	}
}

// TestLastGoodInMemory checks that no Secret of a last good definition is on disk if they are kept in memory.
func TestLastGoodInMemory(t *testing.T) {
	layout := identity.Layout{RootDir: t.TempDir()}
	t.Cleanup(func() {
		_ = unix.Unmount(string(layout.Secrets()), unix.MNT_DETACH)
		_ = os.RemoveAll(string(layout.Secrets()))
	})
	c := revisionOf("good", "config")
	c.InMemory = true
	for range 2 {
		if g := good(t, layout, c); !g.Made.InMemory || g.Made.SecretsLost || string(g.Made.Secrets[0].Data["key"]) != "value" {
			t.Errorf("%+v", g)
		}
	}
	data, err := os.ReadFile(layout.History(historyID))
	if err != nil || strings.Contains(string(data), "dmFsdWU") {
		t.Errorf("%s, %v", data, err)
	}
	files, err := filepath.Glob(filepath.Join(layout.Secrets().LastGood(historyID), "*"))
	if err != nil || len(files) != 1 {
		t.Errorf("files in memory: %v, %v", files, err)
	}
	if err := os.Remove(files[0]); err != nil { // a reboot
		t.Fatal(err)
	}
	if g := readGood(t, layout); !g.Made.SecretsLost || len(g.Made.Secrets) != 1 {
		t.Errorf("after a reboot: %+v", g)
	}
	good(t, layout, c)
	if err := removeHistory(layout, historyID); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(string(layout.Secrets())); !os.IsNotExist(err) {
		t.Errorf("left: %v", err)
	}
	// The pod's Secrets were on disk, and are in memory from now on.
	c.InMemory = false
	good(t, layout, c)
	if err := ForgetHistorySecrets(layout, historyID); err != nil {
		t.Fatal(err)
	}
	if g := readGood(t, layout); !g.Made.SecretsLost {
		t.Errorf("after ForgetHistorySecrets: %+v", g)
	}
	if data, err := os.ReadFile(layout.History(historyID)); err != nil || strings.Contains(string(data), "dmFsdWU") {
		t.Errorf("%s, %v", data, err)
	}
}

// TestLastGoodIsPinned checks that a history that is too large loses revisions, but not the last good definition.
func TestLastGoodIsPinned(t *testing.T) {
	h := history{UID: "u", Good: &goodRevision{Objects: strings.Repeat("g", 1000)}}
	for i := range 3 {
		h.Revisions = append(h.Revisions, historyRevision{Number: int64(i), Superseded: time.Unix(0, 0), Objects: strings.Repeat("x", 1000)})
	}
	kept, err := h.fit(1500)
	if err != nil || kept.Good != h.Good || len(kept.Revisions) != 1 {
		t.Errorf("%d revisions, good %v, %v", len(kept.Revisions), kept.Good != nil, err)
	}
}

// TestUnreadableRevisions damages one revision and the last good definition of a history that is otherwise intact: podrun omits
// the revision, and has no last good definition until the next one.
func TestUnreadableRevisions(t *testing.T) {
	layout := testLayout(t)
	a, b, c := revisionOf("a", ""), revisionOf("b", ""), revisionOf("c", "")
	keep(t, layout, a, b)
	good(t, layout, b)
	h, err := readHistory(layout, historyID)
	if err != nil {
		t.Fatal(err)
	}
	h.Revisions[0].Objects, h.Good.Objects = "{", "{"
	if err := h.write(layout, historyID); err != nil {
		t.Fatal(err)
	}
	if got := shownHistory(t, layout, b); got != "2:b" {
		t.Errorf("the history is %s", got)
	}
	if g := readGood(t, layout); g != nil {
		t.Errorf("the last good definition is %+v", g)
	}
	keep(t, layout, b, c)
	if got := shownHistory(t, layout, c); got != "2:b 3:c" {
		t.Errorf("the history after the next definition is %s", got)
	}
	if g := good(t, layout, c); g == nil || g.Hash != c.Hash() {
		t.Errorf("the next good definition is %+v", g)
	}
}

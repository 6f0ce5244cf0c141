package store

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/manifest"
)

var historyID = identity.Pod{Namespace: "default", Name: "web", UID: "u-web"}

// revisionOf returns a definition with the given image, which refers to a Secret and the given
// ConfigMap.
func revisionOf(image, configMap string) manifest.Checkpoint {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u-web"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: image}}}}
	c := manifest.Checkpoint{Pod: pod}
	if configMap != "" {
		c.ConfigMaps = []*corev1.ConfigMap{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: configMap}}}
		c.Secrets = []*corev1.Secret{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: configMap}, Data: map[string][]byte{"key": []byte("value")}}}
	}
	return c
}

// keep records definitions as if they were applied one after the other.
func keep(t *testing.T, layout identity.Layout, made ...manifest.Checkpoint) {
	t.Helper()
	for i := range made[1:] {
		if err := KeepRevision(layout, historyID, made[i], made[i+1], historyID.UID, time.Unix(int64(i), 0)); err != nil {
			t.Fatal(err)
		}
	}
}

// shownHistory returns the revisions as "1:a 2:b", and the objects of earlier revisions.
func shownHistory(t *testing.T, layout identity.Layout, c manifest.Checkpoint) string {
	t.Helper()
	revisions, err := Revisions(layout, historyID, c)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range revisions {
		text := fmt.Sprintf("%d:%s", r.Number, r.Made.Pod.Spec.Containers[0].Image)
		for _, m := range r.Made.ConfigMaps {
			text += "+" + m.Name
		}
		for _, s := range r.Made.Secrets {
			text += "+" + s.Name + "=" + string(s.Data["key"])
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func TestHistory(t *testing.T) {
	a, b, c := revisionOf("a", ""), revisionOf("b", ""), revisionOf("c", "")
	with := func(made manifest.Checkpoint, key, value string) manifest.Checkpoint {
		made.Pod = made.Pod.DeepCopy()
		made.Pod.Annotations = map[string]string{key: value}
		return made
	}
	memory := revisionOf("m", "old")
	memory.InMemory = true
	for name, test := range map[string]struct {
		made []manifest.Checkpoint
		want string
	}{
		"one definition":               {[]manifest.Checkpoint{a}, "1:a"},
		"several":                      {[]manifest.Checkpoint{a, b, c}, "1:a 2:b 3:c"},
		"the same again":               {[]manifest.Checkpoint{a, a, b}, "1:a 2:b"},
		"back to an earlier one":       {[]manifest.Checkpoint{a, b, a}, "2:b 3:a"},
		"there and back":               {[]manifest.Checkpoint{a, b, a, b}, "3:a 4:b"},
		"only the change cause":        {[]manifest.Checkpoint{a, with(a, manifest.ChangeCause, "x"), b}, "1:a 2:b"},
		"another annotation":           {[]manifest.Checkpoint{a, with(a, "k", "x")}, "1:a 2:a"},
		"the last five":                {[]manifest.Checkpoint{a, b, c, revisionOf("d", ""), revisionOf("e", ""), revisionOf("f", ""), revisionOf("g", "")}, "3:c 4:d 5:e 6:f 7:g"},
		"an object that is kept":       {[]manifest.Checkpoint{revisionOf("a", "old"), b}, "1:a+old+old=value 2:b"},
		"an object of the next one":    {[]manifest.Checkpoint{revisionOf("a", "old"), revisionOf("b", "old")}, "1:a 2:b+old+old=value"},
		"Secrets in memory":            {[]manifest.Checkpoint{memory, b}, "1:m+old 2:b"},
		"Secrets that move to memory":  {[]manifest.Checkpoint{revisionOf("a", "before"), b, memory}, "1:a+before 2:b 3:m+old+old=value"},
		"an earlier one is not double": {[]manifest.Checkpoint{a, b, a, c}, "2:b 3:a 4:c"},
	} {
		t.Run(name, func(t *testing.T) {
			layout := testLayout(t)
			keep(t, layout, test.made...)
			if got := shownHistory(t, layout, test.made[len(test.made)-1]); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// TestHistoryKilled covers a podrun process that is killed after it has written the history and
// before it writes the new definition. The earlier definition then remains the current one, and the
// next change must not record it twice.
func TestHistoryKilled(t *testing.T) {
	a, b, c := revisionOf("a", ""), revisionOf("b", ""), revisionOf("c", "")
	layout := testLayout(t)
	keep(t, layout, a, b, c)
	if got, want := shownHistory(t, layout, b), "1:a 3:b"; got != want {
		t.Errorf("after the kill: %s, want %s", got, want)
	}
	keep(t, layout, b, c)
	if got, want := shownHistory(t, layout, c), "1:a 3:b 4:c"; got != want {
		t.Errorf("after the next change: %s, want %s", got, want)
	}
}

// TestHistoryOfOther checks that the current pod's history does not include that of an earlier pod
// of the same name. Such a history remains if a version of podrun without histories removed the
// earlier pod.
func TestHistoryOfOther(t *testing.T) {
	a, b := revisionOf("a", ""), revisionOf("b", "")
	layout := testLayout(t)
	keep(t, layout, a, b)
	other := historyID
	other.UID = "u-other"
	revisions, err := Revisions(layout, other, b)
	if err != nil || len(revisions) != 1 || revisions[0].Number != 1 {
		t.Errorf("%v, %v", revisions, err)
	}
	if err := KeepRevision(layout, other, b, a, "u-next", time.Now()); err != nil {
		t.Fatal(err)
	}
	revisions, err = Revisions(layout, identity.Pod{Namespace: "default", Name: "web", UID: "u-next"}, a)
	if err != nil || len(revisions) != 2 || revisions[0].Number != 1 || revisions[1].Number != 2 {
		t.Errorf("after a change: %v, %v", revisions, err)
	}
}

// TestHistoryFile checks that the file is private, is removed with the pod, and has a limit.
func TestHistoryFile(t *testing.T) {
	layout := testLayout(t)
	keep(t, layout, revisionOf("a", ""), revisionOf("b", ""))
	info, err := os.Stat(layout.History(historyID))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	keep(t, layout, revisionOf("b", "old"), revisionOf("c", ""))
	h, err := readHistory(layout, historyID)
	if err != nil || len(h.Revisions) != 2 {
		t.Fatalf("%v, %v", h, err)
	}
	for limit, want := range map[int]int{1 << 20: 2, len(h.Revisions[1].Objects) + 400: 1, 100: 0} {
		kept, err := h.fit(limit)
		if got := len(kept.Revisions); err != nil || got != want {
			t.Errorf("limit %d: %d revisions, want %d; %v", limit, got, want, err)
		}
	}
	if err := ForgetHistorySecrets(layout, historyID); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(layout.History(historyID))
	if err != nil || strings.Contains(string(data), "dmFsdWU=") {
		t.Errorf("Secrets in the history: %v", err)
	}
	if err := removeOwner(layout, historyID); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(layout.Histories()); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

// TestHistoryNewer checks that podrun neither misreads nor overwrites a history that a newer
// version of podrun wrote.
func TestHistoryNewer(t *testing.T) {
	layout := testLayout(t)
	keep(t, layout, revisionOf("a", ""), revisionOf("b", ""))
	data, err := os.ReadFile(layout.History(historyID))
	if err != nil {
		t.Fatal(err)
	}
	newer := []byte(strings.Replace(string(data), "# podrun schema 1", "# podrun schema 99", 1))
	if err := os.WriteFile(layout.History(historyID), newer, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Revisions(layout, historyID, revisionOf("b", "")); !IsNewer(err) {
		t.Errorf("read: %v", err)
	}
	keep(t, layout, revisionOf("b", ""), revisionOf("c", ""))
	if now, err := os.ReadFile(layout.History(historyID)); err != nil || !slices.Equal(now, newer) {
		t.Errorf("overwritten: %v", err)
	}
}

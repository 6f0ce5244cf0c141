package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/lifecycle"
)

// stateTime returns a fixed time at the given minute.
func stateTime(minute int) time.Time {
	return time.Date(2026, 1, 2, 3, minute, 4, 567, time.UTC)
}

// podStates returns states of pods: one state for each part, which contains only this part, and one
// state with all parts.
func podStates() map[string]PodState {
	kept := lifecycle.Kept{
		Phase: corev1.PodFailed, Reason: "Evicted", Message: "the node was low on \"memory\"\n", OOMKilled: []string{"a1"},
		Conditions:     []lifecycle.KeptCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Since: stateTime(1)}},
		Evicted:        &lifecycle.Evicted{At: stateTime(2), ForNode: true, Containers: []lifecycle.Container{{ID: "a1", Name: "a", ExitCode: 137}}},
		StartFailures:  map[string]lifecycle.StartFailure{"b": {Failure: lifecycle.Failure{Waiting: lifecycle.Waiting{Reason: "RunContainerError"}, At: stateTime(3)}}},
		CreateFailures: []lifecycle.Container{{ID: "b1", Name: "b", CreateFailed: true}}, Removed: []lifecycle.Container{{ID: "c1", Name: "c"}},
		ShutDown: stateTime(4), ResizePending: &lifecycle.ResizePending{Reason: corev1.PodReasonDeferred, Message: "no room"},
	}
	probes := map[string]lifecycle.Probed{"a1": {Started: true, Ready: true}, "b1": {Started: true}, "c1": {}}
	resize := &lifecycle.Resize{Group: true, Containers: map[string]lifecycle.Resources{"a1": {CPURequest: 100, MemoryLimit: 1 << 26}}, Error: "refused", Since: stateTime(6)}
	return map[string]PodState{
		"nothing":           {},
		"a running pod":     {Kept: lifecycle.Kept{Conditions: kept.Conditions}},
		"an ended pod":      {Kept: lifecycle.Kept{Phase: corev1.PodSucceeded}},
		"all of the status": {Kept: kept},
		"probes":            {Probes: probes, ProbedAt: stateTime(5)},
		"a resize":          {Resize: resize},
		"an empty resize":   {Resize: &lifecycle.Resize{}},
		"everything":        {Kept: kept, Probes: probes, ProbedAt: stateTime(5), Resize: resize},
	}
}

const stateUID = "0f0d5a2e-1111-2222-3333-444444444444"

// podLayout returns the layout of a root directory with the directory of one pod.
func podLayout(t *testing.T) identity.Layout {
	t.Helper()
	l := testLayout(t)
	if err := os.MkdirAll(l.Pod(stateUID).Plugins(), 0o750); err != nil {
		t.Fatal(err)
	}
	return l
}

// putFile writes a file without changing its content.
func putFile(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}

// putState writes a pod's state.
func putState(t *testing.T, l identity.Layout, s PodState) {
	t.Helper()
	if err := UpdatePodState(l, stateUID, func(now *PodState) { *now = s }); err != nil {
		t.Fatal(err)
	}
}

// putLegacy writes a pod's state as a version of podrun with schema version 2 does: in three files
// of version 1.
func putLegacy(t *testing.T, l identity.Layout, s PodState) {
	t.Helper()
	put := func(file string, value any, exists bool) {
		if !exists {
			return
		}
		data, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		putFile(t, file, "# podrun schema 1\n"+string(data))
	}
	put(l.Pod(stateUID).State(), s.Kept, true)
	put(l.Pod(stateUID).LegacyProbes(), s.Probes, s.Probes != nil)
	put(l.Pod(stateUID).LegacyResize(), s.Resize, s.Resize != nil)
	if s.Probes != nil {
		if err := os.Chtimes(l.Pod(stateUID).LegacyProbes(), s.ProbedAt, s.ProbedAt); err != nil {
			t.Fatal(err)
		}
	}
}

// text formats a state for comparison.
func (s PodState) text(t *testing.T) string {
	t.Helper()
	s.ProbedAt = s.ProbedAt.UTC()
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// wantState reads the state of a pod, and checks the state and the number of errors.
func wantState(t *testing.T, l identity.Layout, want PodState, errs int) {
	t.Helper()
	got, failed := ReadPodState(l, stateUID)
	if got.text(t) != want.text(t) {
		t.Errorf("read %s\nwant %s", got.text(t), want.text(t))
	}
	if len(failed) != errs {
		t.Errorf("errors %v, want %d", failed, errs)
	}
	for _, err := range failed {
		if n := strings.Count(err.Error(), l.Pod(stateUID).Plugins()); n != 1 {
			t.Errorf("error %q names the file %d times", err, n)
		}
	}
}

// TestPodStateRoundTrip checks that a state does not change when it is written to the file and read
// again.
func TestPodStateRoundTrip(t *testing.T) {
	for name, s := range podStates() {
		t.Run(name, func(t *testing.T) {
			l := podLayout(t)
			wantState(t, l, PodState{}, 0) // the file is missing
			putState(t, l, s)
			wantState(t, l, s, 0)
			data, err := os.ReadFile(l.Pod(stateUID).State())
			if err != nil || !bytes.HasPrefix(data, []byte("# podrun schema 3\n{")) {
				t.Errorf("the file contains %q, %v", data, err)
			}
			if entries, err := os.ReadDir(l.Pod(stateUID).Plugins()); err != nil || len(entries) != 1 {
				t.Errorf("%v, %v; want one directory", entries, err)
			}
			var older lifecycle.Kept // a version of podrun with schema version 2 decodes this type to show the pod
			content, _ := identity.CutSchema(data)
			if err := json.Unmarshal(content, &older); err != nil || (PodState{Kept: older}).text(t) != (PodState{Kept: s.Kept}).text(t) {
				t.Errorf("an older podrun reads %+v, %v", older, err)
			}
		})
	}
}

// TestPodStateParts checks that an update changes one part and keeps the others.
func TestPodStateParts(t *testing.T) {
	l, all := podLayout(t), podStates()["everything"]
	putState(t, l, all)
	for _, change := range []func(*PodState){
		func(s *PodState) { s.Kept = lifecycle.Kept{Phase: corev1.PodSucceeded} },
		func(s *PodState) { s.Probes, s.ProbedAt = map[string]lifecycle.Probed{"d1": {}}, stateTime(8) },
		func(s *PodState) { s.Resize = nil },
		func(s *PodState) { s.Kept = lifecycle.Kept{} },
	} {
		if err := UpdatePodState(l, stateUID, change); err != nil {
			t.Fatal(err)
		}
		change(&all)
		wantState(t, l, all, 0)
	}
}

// TestPodStateSync checks that podrun syncs a state that a power failure must not destroy. It must
// also sync the state that replaces such a state, because the file may otherwise be empty after a
// power failure.
func TestPodStateSync(t *testing.T) {
	all := podStates()
	probed := all["probes"]
	probed.ProbedAt = stateTime(50)
	for _, tc := range []struct {
		name          string
		before, after PodState
		want          bool
	}{
		{"times of a pod that runs", all["nothing"], all["a running pod"], false},
		{"the same results of probes, later", all["probes"], probed, false},
		{"results of probes", all["nothing"], all["probes"], true},
		{"the end of the pod", all["a running pod"], all["an ended pod"], true},
		{"of a pod that ended", all["an ended pod"], all["an ended pod"], true},
		{"the pod runs again", all["an ended pod"], all["a running pod"], true},
		{"a resize begins", all["nothing"], all["a resize"], true},
		{"during a resize", all["a resize"], all["a resize"], true},
		{"a resize ends", all["an empty resize"], all["nothing"], true},
	} {
		if got := mustSync(tc.before, tc.after); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestPodStateTorn truncates the file at each byte. All parts are then unknown, so podrun must
// repeat the resize, and the next update must write the file again.
func TestPodStateTorn(t *testing.T) {
	l, s := podLayout(t), podStates()["everything"]
	putState(t, l, s)
	whole, err := os.ReadFile(l.Pod(stateUID).State())
	if err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		putFile(t, l.Pod(stateUID).State(), string(whole[:n]))
		want, errs := PodState{Resize: &lifecycle.Resize{}}, 1
		// An empty file means that a power failure has destroyed a write that was not synced. Such a
		// write contained no resize, because podrun syncs a resize.
		if n == 0 {
			want, errs = PodState{}, 0
		}
		wantState(t, l, want, errs)
		if n%50 == 0 {
			after := want
			after.Kept = s.Kept
			if err := UpdatePodState(l, stateUID, func(now *PodState) { now.Kept = s.Kept }); err != nil {
				t.Fatal(err)
			}
			wantState(t, l, after, 0)
		}
		if t.Failed() {
			t.Fatalf("cut off at byte %d: %q", n, whole[:n])
		}
	}
}

// TestPodStateCorruptParts checks that a corrupt part does not affect the others.
func TestPodStateCorruptParts(t *testing.T) {
	const phase, probes, at, resize = `"phase":"Failed"`, `"probes":{"a1":{"started":true,"ready":false}}`, `"probedAt":"2026-01-02T03:05:04Z"`, `"resize":{"group":true,"since":"2026-01-02T03:06:04Z"}`
	whole := PodState{Kept: lifecycle.Kept{Phase: corev1.PodFailed}, Probes: map[string]lifecycle.Probed{"a1": {Started: true}},
		ProbedAt: time.Date(2026, 1, 2, 3, 5, 4, 0, time.UTC), Resize: &lifecycle.Resize{Group: true, Since: time.Date(2026, 1, 2, 3, 6, 4, 0, time.UTC)}}
	without := func(change func(*PodState)) PodState { s := whole; change(&s); return s }
	noProbes := without(func(s *PodState) { s.Probes = nil })
	unknown := without(func(s *PodState) { s.Resize = &lifecycle.Resize{} })
	for _, tc := range []struct {
		parts []string
		want  PodState
		errs  int
	}{
		{[]string{phase, probes, at, resize}, whole, 0},
		{[]string{phase, probes, at, resize, `"later":1`}, whole, 0},
		{[]string{`"phase":7`, probes, at, resize}, without(func(s *PodState) { s.Kept = lifecycle.Kept{} }), 1},
		{[]string{phase, `"conditions":[{"since":"?"}]`, probes, at, resize}, without(func(s *PodState) { s.Kept = lifecycle.Kept{} }), 1},
		{[]string{phase, `"probes":[]`, at, resize}, noProbes, 1},
		{[]string{phase, `"probes":{"a1":[]}`, at, resize}, noProbes, 1},
		{[]string{phase, `"probes":null`, at, resize}, noProbes, 0},
		{[]string{phase, probes, `"probedAt":"?"`, resize}, without(func(s *PodState) { s.ProbedAt = time.Time{} }), 1},
		{[]string{phase, probes, at, `"resize":"?"`}, unknown, 1},
		{[]string{phase, probes, at, `"resize":{"since":7}`}, unknown, 1},
		{[]string{phase, probes, at, `"resize":null`}, without(func(s *PodState) { s.Resize = nil }), 0},
		{[]string{`"phase":7`, `"probes":7`, `"probedAt":7`, `"resize":7`}, PodState{Resize: &lifecycle.Resize{}}, 1},
	} {
		text := "{" + strings.Join(tc.parts, ",") + "}"
		t.Run(text, func(t *testing.T) {
			l := podLayout(t)
			putFile(t, l.Pod(stateUID).State(), "# podrun schema 3\n"+text)
			wantState(t, l, tc.want, tc.errs)
			putState(t, l, tc.want)
			wantState(t, l, tc.want, 0)
		})
	}
	for _, text := range []string{"[]", `"x"`, "7", "{", "\x00\x00"} {
		l := podLayout(t)
		putFile(t, l.Pod(stateUID).State(), "# podrun schema 3\n"+text)
		wantState(t, l, PodState{Resize: &lifecycle.Resize{}}, 1)
	}
}

// TestPodStateOfANewerPodrun checks that podrun reads the parts that it supports from the file of a
// newer version, and does not change the file.
func TestPodStateOfANewerPodrun(t *testing.T) {
	for content, want := range map[string]PodState{
		`{"phase":"Failed","probes":[],"resize":7}`:   {Kept: lifecycle.Kept{Phase: corev1.PodFailed}},
		`{"phase":"Succeeded","probes":{"a1":{}}}`:    {Kept: lifecycle.Kept{Phase: corev1.PodSucceeded}, Probes: map[string]lifecycle.Probed{"a1": {}}},
		"\x01\x02 of a later form":                    {},
		`{"resize":{"since":"2026-01-02T03:06:04Z"}}`: {Resize: &lifecycle.Resize{Since: time.Date(2026, 1, 2, 3, 6, 4, 0, time.UTC)}},
	} {
		l := podLayout(t)
		file := fmt.Sprintf("# podrun schema %d\n%s", identity.Schema+1, content)
		putFile(t, l.Pod(stateUID).State(), file)
		wantState(t, l, want, 0)
		err := UpdatePodState(l, stateUID, func(s *PodState) { *s = PodState{} })
		if !IsNewer(err) || !strings.Contains(err.Error(), l.Pod(stateUID).State()) {
			t.Errorf("update: %v", err)
		}
		if data, err := os.ReadFile(l.Pod(stateUID).State()); err != nil || string(data) != file {
			t.Errorf("the file contains %q, %v", data, err)
		}
	}
}

// TestPodStateUnreadable checks that podrun does not overwrite a file that it cannot read at the
// moment.
func TestPodStateUnreadable(t *testing.T) {
	l := podLayout(t)
	if err := UpdatePodState(l, "missing", func(*PodState) {}); !errors.Is(err, ErrNoPodDir) {
		t.Errorf("without a directory: %v", err)
	}
	if _, err := os.Lstat(string(l.Pod("missing"))); err == nil {
		t.Error("the directory of a pod was created")
	}
	putFile(t, filepath.Dir(l.Pod(stateUID).State()), "a file in place of the directory")
	if err := UpdatePodState(l, stateUID, func(*PodState) {}); err == nil {
		t.Error("no error")
	}
}

// TestPodStateOfBefore checks that podrun reads the three files of schema version 2, and that
// the first update replaces them.
func TestPodStateOfBefore(t *testing.T) {
	for name, s := range podStates() {
		for _, version := range []string{"# podrun schema 1\n", ""} {
			t.Run(name+version, func(t *testing.T) {
				l := podLayout(t)
				putLegacy(t, l, s)
				for _, file := range append(legacyState(l, stateUID), l.Pod(stateUID).State()) {
					if data, err := os.ReadFile(file); err == nil {
						info, _ := os.Lstat(file)
						putFile(t, file, strings.Replace(string(data), "# podrun schema 1\n", version, 1))
						os.Chtimes(file, info.ModTime(), info.ModTime())
					}
				}
				wantState(t, l, s, 0)
				if err := UpdatePodState(l, stateUID, func(*PodState) {}); err != nil {
					t.Fatal(err)
				}
				wantState(t, l, s, 0)
				if entries, err := os.ReadDir(l.Pod(stateUID).Plugins()); err != nil || len(entries) != 1 {
					t.Errorf("%v, %v; want one directory", entries, err)
				}
			})
		}
	}
}

// TestPodStateOfBeforeCorrupt covers each of the three files, both missing and corrupt.
func TestPodStateOfBeforeCorrupt(t *testing.T) {
	s := podStates()["everything"]
	for _, text := range []string{"# podrun schema 1\n{", "\x00", "# podrun schema 1\n[7]", "absent"} {
		for i := range 3 {
			l := podLayout(t)
			putLegacy(t, l, s)
			file := append(legacyState(l, stateUID), l.Pod(stateUID).State())[i]
			want, errs := s, 1
			if text == "absent" {
				os.Remove(file)
				errs = 0
			} else {
				putFile(t, file, text)
				os.Chtimes(file, s.ProbedAt, s.ProbedAt)
			}
			switch {
			case file == l.Pod(stateUID).State():
				want.Kept = lifecycle.Kept{}
			case file == l.Pod(stateUID).LegacyResize() && text != "absent":
				want.Resize = &lifecycle.Resize{}
			case file == l.Pod(stateUID).LegacyResize():
				want.Resize = nil
			case text != "absent":
				want.Probes = nil
			default:
				want.Probes, want.ProbedAt = nil, time.Time{}
			}
			wantState(t, l, want, errs)
			if t.Failed() {
				t.Fatalf("%s: %q", file, text)
			}
		}
	}
}

// TestPodStateKilledBetweenFiles kills podrun while it replaces the files of schema version 2. The
// state must be either the one before or the one after the update, and the next update must remove
// leftovers.
func TestPodStateKilledBetweenFiles(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	all := podStates()
	pick := func() (s PodState) {
		for _, other := range all { // the files may have been removed in any order
			if random.IntN(2) == 0 {
				s.Kept = other.Kept
			}
			if random.IntN(2) == 0 {
				s.Probes, s.ProbedAt = other.Probes, other.ProbedAt
			}
			if random.IntN(2) == 0 {
				s.Resize = other.Resize
			}
		}
		return s
	}
	for range 50 {
		before, after := pick(), pick()
		l := podLayout(t)
		putLegacy(t, l, before)
		files := legacyState(l, stateUID)
		// podrun was killed while it wrote the file.
		putFile(t, filepath.Join(filepath.Dir(l.Pod(stateUID).State()), ".status.json.123"), "# podrun schema 3\n{")
		wantState(t, l, before, 0)
		data, err := json.Marshal(after)
		if err == nil {
			err = hostfile.Write(l.Pod(stateUID).State(), identity.AddSchema(identity.StateSchema, data), 0o640)
		}
		if err != nil {
			t.Fatal(err)
		}
		wantState(t, l, after, 0)
		// podrun was killed after it had removed some of the files.
		for _, file := range files[:random.IntN(len(files)+1)] {
			os.Remove(file)
			wantState(t, l, after, 0)
		}
		if err := UpdatePodState(l, stateUID, func(*PodState) {}); err != nil {
			t.Fatal(err)
		}
		wantState(t, l, after, 0)
		for _, file := range files {
			if _, err := os.Lstat(file); err == nil {
				t.Errorf("%s is left", file)
			}
		}
		if t.Failed() {
			t.Fatalf("before %s\nafter %s", before.text(t), after.text(t))
		}
	}
}

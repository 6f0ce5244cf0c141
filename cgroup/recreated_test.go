package cgroup

import (
	"bytes"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestGroupsThatARuntimeCreatesAgain covers a runtime that creates a pod's cgroup after podrun has stopped
// waiting for the sandbox and has removed the cgroups. The next removal must remove the shared cgroups,
// and ReadPodGroups must return the pod's cgroup.
func TestGroupsThatARuntimeCreatesAgain(t *testing.T) {
	facts, s, planOf := liveCgroupfs(t)
	first, second := podOf(corev1.PodQOSBestEffort), podOf(corev1.PodQOSBestEffort)
	first.UID, second.UID = "11111111-0000-0000-0000-000000000000", "22222222-0000-0000-0000-000000000000"
	p, next := planOf(first), planOf(second)
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	before := remains(t, p)
	t.Cleanup(func() {
		for _, dir := range slices.Backward(remains(t, p)) {
			if !slices.Contains(before, dir) {
				_ = os.Remove(dir)
			}
		}
	})
	do(Apply(t.Context(), p))
	dirs := slices.DeleteFunc(remains(t, p), func(dir string) bool { return slices.Contains(before, dir) })
	// A record that is full is replaced.
	do(os.WriteFile(p.recreated(), bytes.Repeat([]byte("0 /none\n"), maxRecreated/8), 0o600))
	do(RemoveUnanswered(t.Context(), p))
	if info, err := os.Stat(p.recreated()); err != nil || info.Size() > maxRecreated/2 {
		t.Errorf("the record: %v, %v", info, err)
	}
	if left := remains(t, p); !slices.Equal(left, before) {
		t.Fatalf("left behind: %q", left)
	}
	for _, dir := range dirs { // the runtime
		do(os.MkdirAll(dir, 0o755))
	}
	do(Apply(t.Context(), next))
	do(Remove(t.Context(), next))
	if found := ReadPodGroups(facts.Cgroup, s); len(found) != 1 || found[0].UID != string(first.UID) {
		t.Errorf("ReadPodGroups: %v", found)
	}
	do(RemoveUnused(t.Context(), p))
	if left := remains(t, p); !slices.Equal(left, before) {
		t.Errorf("left behind: %q", left)
	}

	// An old record no longer applies.
	old := time.Now().Add(-recreatedWithin - time.Second)
	do(os.Chtimes(p.recreated(), old, old))
	for _, dir := range dirs { // a kubelet
		do(os.MkdirAll(dir, 0o755))
	}
	do(Apply(t.Context(), next))
	do(Remove(t.Context(), next))
	if left := remains(t, p); slices.ContainsFunc(left, marked) || len(left) < len(dirs) {
		t.Errorf("marked or removed: %q", left)
	}
	if exists(p.recreated()) {
		t.Error("the record still exists")
	}
}

package cgroup

import (
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestGroupsOfAKilledPodrunAreRemoved covers a podrun process that is killed after it has created
// groups and before it has marked them. The next podrun process must remove the groups.
func TestGroupsOfAKilledPodrunAreRemoved(t *testing.T) {
	_, _, planOf := liveCgroupfs(t)
	p := planOf(podOf(corev1.PodQOSBestEffort))
	if _, err := openLock(p.Lock); err != nil {
		t.Fatal(err)
	}
	g := p.Pods[0]
	missing := p.hierarchies().missing(g, map[string]bool{})
	p.recordCreating(g, missing)
	for _, dir := range missing {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// An interrupted process must not remove the record unread.
	interrupt, _ := interrupted(t)
	unlock, err := p.lockShared(interrupt)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	if err := Remove(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	left := slices.DeleteFunc(remains(t, p), func(dir string) bool { return !slices.Contains(missing, dir) })
	for _, dir := range slices.Backward(left) {
		t.Errorf("left behind: %s", dir)
		_ = os.Remove(dir)
	}
	if _, err := os.Stat(p.making()); !os.IsNotExist(err) {
		t.Errorf("the mark still exists: %v", err)
	}
}

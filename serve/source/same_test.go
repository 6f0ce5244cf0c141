package source

import (
	"os"
	"path/filepath"
	"testing"
)

// TestSame checks that two reads of unchanged directories are the same, and that each change that can
// concern a pod makes a difference.
func TestSame(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	replace := func(name, text string) {
		write(t, at(name)+".tmp", text)
		do(t, os.Rename(at(name)+".tmp", at(name)))
	}
	replace("web.yaml", pod("web", "a")+"---\n"+configMap("web", "1"))
	replace("db.yaml", pod("db", "a"))
	r := reader(t, dir)
	before, _ := settled(t, r)
	was := Merge(before)
	same := func() bool {
		s, _ := settled(t, r)
		d := Merge(s)
		defer func() { before, was = s, d }()
		return Same(s, d, before, was)
	}
	for range 2 {
		if !same() {
			t.Error("nothing changed, but the reads differ")
		}
	}
	for _, change := range []struct {
		name string
		do   func()
	}{
		{"another image", func() { replace("web.yaml", pod("web", "b")+"---\n"+configMap("web", "1")) }},
		{"another ConfigMap", func() { replace("web.yaml", pod("web", "b")+"---\n"+configMap("web", "2")) }},
		{"a new pod", func() { replace("new.yaml", pod("new", "a")) }},
		{"another name of a file", func() { do(t, os.Rename(at("new.yaml"), at("newer.yaml"))) }},
		{"a removed pod", func() { do(t, os.Remove(at("db.yaml"))) }},
		{"an invalid file", func() { replace("web.yaml", broken) }},
		{"an unreachable directory", func() { do(t, os.Rename(dir, dir+".old")) }},
	} {
		if change.do(); same() {
			t.Errorf("%s: the reads are the same", change.name)
		}
		if !same() {
			t.Errorf("after %s, nothing changed, but the reads differ", change.name)
		}
	}
	if s := *before; Same(&s, was, &Snapshot{Dirs: s.Dirs, API: &APIServer{}}, was) {
		t.Error("pods of an API server may have changed, but the reads are the same")
	}
	fewer := *was
	fewer.Replicas = map[string]int32{"Deployment default/web": 1}
	if Same(before, &fewer, before, was) {
		t.Error("another number of replicas: the reads are the same")
	}
}

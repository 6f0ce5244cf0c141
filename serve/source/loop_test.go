package source

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/podrun/podrun/test/patience"
)

// TestLoop runs the loop of a supervisor: wait for a signal, read, merge, compare.
func TestLoop(t *testing.T) {
	dir := t.TempDir()
	r := reader(t, dir)
	changed, stop := Watch(t.Context(), WatchOptions{Dirs: r.Dirs(), Relist: time.Hour})
	defer stop()
	var desired *Desired
	// until reads until the pods change, and returns the changes. It also returns when a file is
	// broken.
	until := func(what string, isBroken bool) []string {
		var again <-chan time.Time
		ctx, cancel := patience.Context(t.Context(), patience.OnFake)
		defer cancel()
		for {
			select {
			case <-changed:
			case <-again:
			case <-ctx.Done():
				t.Fatalf("%s: nothing changed: %v", what, context.Cause(ctx))
			}
			s := read(t, r)
			if again = nil; s.ReadAgain > 0 {
				again = time.After(s.ReadAgain)
			}
			before := desired
			desired = Merge(s)
			var out []string
			for _, c := range Diff(before, desired) {
				out = append(out, fmt.Sprint(c.Kind, " ", c.Pod.Key()))
			}
			if out != nil || isBroken && slices.ContainsFunc(s.Dirs[0].Files, func(f File) bool { return f.State == Broken }) {
				return out
			}
		}
	}
	drop := func(name, text string) {
		write(t, filepath.Join(dir, name+".tmp"), text)
		do(t, os.Rename(filepath.Join(dir, name+".tmp"), filepath.Join(dir, name)))
	}
	uses := pod("web", "a") + "    envFrom: [{configMapRef: {name: web}}]\n"
	for _, c := range []struct {
		what string
		do   func()
		want string
	}{
		{"a file is dropped in", func() { drop("web.yaml", uses) }, "Add default/web"},
		{"its ConfigMap comes", func() { drop("map.yaml", configMap("web", "1")) }, "Reconcile default/web"},
		{"its ConfigMap changes", func() { drop("map.yaml", configMap("web", "2")) }, "Reconcile default/web"},
		{"it is broken, and corrected", func() {
			drop("web.yaml", broken)
			if got := until("it is broken", true); got != nil {
				t.Fatalf("it is broken: %v, want no change", got)
			}
			drop("web.yaml", pod("web", "b"))
		}, "Update default/web"},
		{"its file is renamed", func() { do(t, os.Rename(filepath.Join(dir, "web.yaml"), filepath.Join(dir, "a.yaml"))) }, "Reconcile default/web"},
		{"its file is removed", func() { do(t, os.Remove(filepath.Join(dir, "a.yaml"))) }, "Remove default/web"},
	} {
		c.do()
		if got := until(c.what, false); !slices.Equal(got, []string{c.want}) {
			t.Fatalf("%s: %v, want %s", c.what, got, c.want)
		}
	}
}

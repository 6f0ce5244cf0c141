package source

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func found(name, text string, at time.Duration) observation {
	return observation{name: name, data: []byte(text), print: print{size: int64(len(text)), modified: epoch.Add(at).UnixNano()}}
}

// TestDir reads a directory in passes that are 10 s apart.
func TestDir(t *testing.T) {
	gone := listing{err: errors.New("no such file or directory")}
	holds := func(device, inode uint64, names ...string) listing {
		l := listing{identity: Identity{device, inode}}
		for _, n := range names {
			l.files = append(l.files, found(n+".yaml", pod(n, "a"), 0))
		}
		return l
	}
	marked := holds(2, 1)
	marked.marked = true
	type pass struct {
		l    listing
		want string // expected state of the directory, and its files
	}
	for name, c := range map[string]struct {
		remembered Identity
		passes     []pass
	}{
		"a file comes and goes": {passes: []pass{
			{holds(1, 1, "a"), "Present a:Good"}, {holds(1, 1, "a", "b"), "Present a:Good b:Good"},
			{holds(1, 1, "b"), "Present a:Missing b:Good"}, {holds(1, 1, "b"), "Present b:Good"},
			{holds(1, 1), "Present b:Missing"}, {holds(1, 1), "Present"}}},
		"gone and back": {passes: []pass{
			{holds(1, 1, "a"), "Present a:Good"}, {gone, "Unreachable a:Good"}, {gone, "Unreachable a:Good"}, {holds(1, 1, "a"), "Present a:Good"}}},
		"removed one by one": {passes: []pass{
			{holds(1, 1, "a"), "Present a:Good"}, {holds(1, 1), "Present a:Missing"}, {gone, "Unreachable a:Missing"}, {gone, "Unreachable a:Missing"},
			{holds(1, 2), "Unreachable a:Missing"}, {holds(1, 2, "b"), "Present a:Missing b:Good"}, {holds(1, 2, "b"), "Present b:Good"}}},
		"unmounted and mounted": {passes: []pass{
			{holds(2, 2, "a"), "Present a:Good"}, {holds(1, 9), "Unreachable a:Good"}, {holds(2, 2, "a"), "Present a:Good"}}},
		"mounted over with files": {passes: []pass{
			{holds(1, 1, "a"), "Present a:Good"}, {holds(2, 2, "b"), "Present a:Missing b:Good"}, {holds(2, 2, "b"), "Present b:Good"}}},
		"replaced, and empty on purpose": {passes: []pass{
			{holds(1, 1, "a"), "Present a:Good"}, {marked, "Present a:Missing"}, {marked, "Present"}}},
		"replaced when it held nothing": {passes: []pass{{holds(1, 1), "Present"}, {holds(1, 2), "Present"}}},
		"missing at boot":               {passes: []pass{{gone, "Unreachable"}, {holds(1, 1), "Present"}}},
		"not mounted at boot":           {Identity{7, 2}, []pass{{holds(1, 9), "Unreachable"}, {holds(8, 2, "a"), "Present a:Good"}}},
		"another device at boot":        {Identity{7, 2}, []pass{{holds(8, 2), "Present"}}},
	} {
		t.Run(name, func(t *testing.T) {
			var prev *Dir
			for i, p := range c.passes {
				r := rules{now: epoch.Add(time.Hour + time.Duration(i)*10*time.Second), settle: time.Second}
				d := r.dir(t.Context(), "/m", prev, c.remembered, p.l)
				got := string(d.State)
				for _, f := range d.Files {
					got += " " + strings.TrimSuffix(f.name, ".yaml") + ":" + string(f.State)
				}
				if got != p.want {
					t.Fatalf("pass %d: %s, want %s (%s)", i, got, p.want, d.Why)
				}
				prev = &d
			}
		})
	}
}

func TestMayDefine(t *testing.T) {
	good := File{Path: "/a/good.yaml", State: Good, settled: Good, Objects: load(t, pod("web", "a"))}
	kept := File{Path: "/a/kept.yaml", State: Broken, settled: Broken, Objects: load(t, pod("db", "a"))}
	never := File{Path: "/a/never.yaml", State: Broken, settled: Broken}
	half := File{Path: "/a/half.yaml", State: Incomplete}
	s := &Snapshot{Dirs: []Dir{{Path: "/a", State: Present, listed: true, Files: []File{good, half, kept, never}}, {Path: "/b", State: Unreachable, Why: "x", Files: []File{{Path: "/b/good.yaml", Objects: good.Objects}}}}}
	for path, want := range map[string]bool{
		"/a/good.yaml": false, "/a/kept.yaml": false, "/a/gone.yaml": false, "/a/never.yaml": true, "/a/half.yaml": true,
		"/b/good.yaml": true, "/b/gone.yaml": true, "/c/x.yaml": true, "": true,
	} {
		if may, why := s.MayDefine(path); may != want || may != (why != "") {
			t.Errorf("%q: %v (%s), want %v", path, may, why, want)
		}
	}
	s.Dirs[0].young = true
	for path, want := range map[string]bool{"/a/good.yaml": false, "/a/gone.yaml": true} {
		if may, _ := s.MayDefine(path); may != want {
			t.Errorf("%q in a directory that was just found: %v, want %v", path, may, want)
		}
	}
	if s.Complete() {
		t.Error("complete, although a file was never valid and a directory was never read")
	}
	if s = (&Snapshot{Dirs: []Dir{{State: Unreachable, listed: true, Files: []File{good, kept}}}}); !s.Complete() {
		t.Error("not complete, although all contents are known")
	}
}

func TestReadAgain(t *testing.T) {
	r := rules{now: epoch.Add(400 * time.Millisecond), settle: time.Second}
	for _, c := range []struct {
		d    Dir
		want time.Duration
	}{
		{Dir{State: Present, Files: []File{{State: Good}, {State: Broken}}}, 0},
		{Dir{State: Present, Files: []File{{State: Missing, since: epoch}}}, 600 * time.Millisecond},
		{Dir{State: Present, Files: []File{{State: Missing, since: epoch}, {State: Incomplete}}}, 250 * time.Millisecond},
		{Dir{State: Unreachable, Files: []File{{State: Incomplete}}}, 0},
		{Dir{State: Present, young: true, arrived: epoch}, 600 * time.Millisecond},
	} {
		if got := r.readAgain(&c.d); got != c.want {
			t.Errorf("%+v: %s, want %s", c.d.Files, got, c.want)
		}
	}
}

func TestUnread(t *testing.T) {
	d := &Dir{Files: []File{
		{name: "good", State: Good, print: print{size: 1}}, {name: "broken", State: Broken, print: print{size: 2}},
		{name: "young", State: Good, racy: true}, {name: "half", State: Incomplete}, {name: "gone", State: Missing},
		{name: "unreadable", State: Broken, failure: "unreadable: input/output error"},
	}}
	got := unread(d)
	if len(got) != 2 || got["good"].size != 1 || got["broken"].size != 2 {
		t.Errorf("files that need no reading: %v", got)
	}
}

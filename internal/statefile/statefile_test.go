package statefile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/treetest"
)

type content struct {
	SchemaVersion int    `json:"schemaVersion,omitempty"`
	Name          string `json:"name"`
}

func kindOf(format Format, on Answers) *Kind[content] {
	return &Kind[content]{What: "the content", Files: "f", Scope: OfPod, On: on, Format: format, Field: "schemaVersion", Mode: 0o600, Limit: 100}
}

var reports = Answers{Absent: "x", Corrupt: Report, Unreadable: Rebuild, Newer: Partial}

// TestExamine checks the five results of a read, in each format.
func TestExamine(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for name, test := range map[string]struct {
		format Format
		make   func() error
		want   State
		value  string
		text   string // part of the fault
	}{
		"absent":            {Line, func() error { return nil }, Absent, "", ""},
		"intact":            {Line, text(path, "# podrun schema 1\n{\"name\":\"a\"}"), Intact, "a", ""},
		"without a version": {Line, text(path, `{"name":"a"}`), Intact, "a", ""},
		"newer":             {Line, text(path, "# podrun schema 9\n{\"name\":\"a\"}"), Newer, "a", "schema version 9"},
		"newer, unknown":    {Line, text(path, "# podrun schema 9\n{\"name\":[]}"), Newer, "", "schema version 9"},
		"cut":               {Line, text(path, `{"name":"a`), Corrupt, "", "is corrupt"},
		"empty":             {Line, text(path, ""), Corrupt, "", "is corrupt"},
		"too large":         {Line, text(path, `{"name":"`+strings.Repeat("a", 100)+`"}`), Corrupt, "", "larger than"},
		"a directory":       {Line, func() error { return os.Mkdir(path, 0o700) }, Corrupt, "", "is not a regular file"},
		"a link":            {Line, func() error { return os.Symlink("/dev/zero", path) }, Corrupt, "", "is not a regular file"},
		"a FIFO":            {Line, func() error { return unix.Mkfifo(path, 0o600) }, Corrupt, "", "is not a regular file"},
		"field":             {Field, text(path, `{"schemaVersion":3,"name":"a"}`), Intact, "a", ""},
		"newer field":       {Field, text(path, `{"schemaVersion":4,"name":"a"}`), Newer, "a", "schema version 4"},
		"newer field, cut":  {Field, text(path, `{"schemaVersion":4,"name":1}`), Newer, "", "schema version 4"},
		"unversioned":       {Unversioned, text(path, `{"schemaVersion":4,"name":"a"}`), Intact, "a", ""},
	} {
		if err := errors.Join(os.RemoveAll(path), test.make()); err != nil {
			t.Fatal(err)
		}
		got := kindOf(test.format, reports).Examine(t.Context(), path)
		if got.State != test.want || got.Value.Name != test.value || (got.Fault != nil) != (test.text != "") {
			t.Errorf("%s: %+v", name, got)
		}
		if f := got.Fault; f != nil && (!strings.Contains(f.Error(), test.text) || strings.Count(f.Error(), path) != 1) {
			t.Errorf("%s: %v", name, f)
		}
	}
}

func text(path, content string) func() error {
	return func() error { return os.WriteFile(path, []byte(content), 0o600) }
}

// TestAnswers checks that Read applies the kind's answers, and that a lack of resources is never an answer.
func TestAnswers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	corrupt := func(a Action) *Kind[content] {
		return kindOf(Line, Answers{Absent: "x", Corrupt: a, Unreadable: a, Newer: a})
	}
	if err := os.WriteFile(path, []byte("# podrun schema 9\n{\"name\":\"a\"}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for action, want := range map[Action]struct {
		value         string
		faulty, fails bool
	}{
		Ignore: {"", false, false}, Report: {"", true, false}, Rebuild: {"", true, false}, Partial: {"a", true, false}, Refuse: {"", true, true}, "a special one": {"", true, false},
	} {
		value, fault, err := corrupt(action).Read(t.Context(), path)
		if value.Name != want.value || (fault != nil) != want.faulty || (err != nil) != want.fails {
			t.Errorf("%s: %q, %v, %v", action, value.Name, fault, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, fault, err := corrupt(Ignore).Read(ended, path); err == nil || IsCorrupt(err) || !LacksResources(fault) {
		t.Errorf("an interrupted read: %v, %v", fault, err)
	}
	if !LacksResources(&Fault{State: Unreadable, Err: unix.EMFILE}) || LacksResources(&Fault{State: Unreadable, Err: unix.EIO}) {
		t.Error("EMFILE and EIO")
	}
}

// TestWrite checks that Write replaces everything but the file of a newer podrun, and that it keeps a directory
// that is in the way.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for name, test := range map[string]struct {
		format Format
		make   func() error
		newer  bool
		aside  bool
	}{
		"absent":      {Line, func() error { return nil }, false, false},
		"corrupt":     {Line, text(path, "{"), false, false},
		"a link":      {Line, func() error { return os.Symlink("/dev/null", path) }, false, false},
		"a directory": {Line, func() error { return os.MkdirAll(path+"/sub", 0o700) }, false, true},
		"newer":       {Line, text(path, "# podrun schema 9\n{}"), true, false},
		"newer field": {Field, text(path, `{"schemaVersion":9}`), true, false},
	} {
		aside := filepath.Join(dir, ".f.damaged")
		if err := errors.Join(os.RemoveAll(path), os.RemoveAll(aside), test.make()); err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadFile(path)
		k := kindOf(test.format, reports)
		err := k.Write(path, content{SchemaVersion: 1, Name: "new"})
		if IsNewer(err) != test.newer || (err != nil) != test.newer || hostfile.IsDir(aside+"/sub") != test.aside {
			t.Errorf("%s: %v", name, err)
		}
		if after, _ := os.ReadFile(path); test.newer && string(after) != string(before) {
			t.Errorf("%s: it was rewritten: %s", name, after)
		}
		if found := k.Examine(t.Context(), path); !test.newer && found.Value.Name != "new" {
			t.Errorf("%s: %+v", name, found)
		}
	}
	if err := kindOf(Line, reports).Write(path, content{Name: strings.Repeat("a", 100)}); err == nil {
		t.Error("it wrote a file that it could not read again")
	}
}

// TestWriteIsDurable checks which writes are synced.
func TestWriteIsDurable(t *testing.T) {
	dir := t.TempDir()
	k := kindOf(Line, reports)
	k.DirMode = 0o750
	if synced := treetest.Syncs(t, func() { _ = k.Write(filepath.Join(dir, "sub", "f"), content{}) }); !slices.Contains(synced, dir) || !slices.Contains(synced, filepath.Join(dir, "sub")) {
		t.Errorf("synced %q", synced)
	}
	k.Unsynced = true
	if synced := treetest.Syncs(t, func() { _ = k.Write(filepath.Join(dir, "sub", "f"), content{}) }); len(synced) > 0 {
		t.Errorf("synced %q", synced)
	}
	if synced := treetest.Syncs(t, func() { _ = k.WriteDurable(filepath.Join(dir, "sub", "f"), content{}) }); !slices.Contains(synced, filepath.Join(dir, "sub")) {
		t.Errorf("synced %q", synced)
	}
}

// TestKeyed checks that the file of an object affects only this object.
func TestKeyed(t *testing.T) {
	l := identity.Layout{RootDir: t.TempDir()}
	s := Keyed[content]{Kind: kindOf(Line, Answers{Absent: "x", Corrupt: Report, Unreadable: Refuse, Newer: Refuse}), Dir: func(l identity.Layout) string { return string(l.Services()) },
		Check: func(id identity.Pod, c content) error {
			if c.Name != id.Name {
				return errors.New("another object")
			}
			return nil
		}}
	s.DirMode = 0o750
	id := func(name string) identity.Pod { return identity.Pod{Namespace: "ns", Name: name} }
	for _, name := range []string{"b", "a", "wrong"} {
		if err := s.Put(l, id(name), content{Name: strings.Replace(name, "wrong", "other", 1)}); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range map[string]string{"ns_cut": "{", "ns_new": "# podrun schema 9\n{\"name\":\"new\"}", ".ns_tmp.1": "{}", "ns_a_1": "{}", "names.json": "{}"} {
		if err := os.WriteFile(filepath.Join(string(l.Services()), name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	records, faults, err := s.List(t.Context(), l, nil)
	var found, faulty []string
	for _, r := range records {
		found = append(found, r.ID.String())
	}
	for _, f := range faults {
		faulty = append(faulty, string(f.State)+" "+f.ID.String()+" "+f.Partial.Name)
	}
	if err != nil || !slices.Equal(found, []string{"ns/a", "ns/b"}) || !slices.Equal(faulty, []string{"corrupt ns/cut ", "newer ns/new new", "corrupt ns/wrong other"}) {
		t.Errorf("%q, %q, %v", found, faulty, err)
	}
	if r, fault, err := s.Get(t.Context(), l, id("cut")); r != nil || fault == nil || err != nil {
		t.Errorf("a corrupt record: %v, %v, %v", r, fault, err)
	}
	if r, _, err := s.Get(t.Context(), l, id("new")); r != nil || !IsNewer(err) {
		t.Errorf("a newer record: %v, %v", r, err)
	}
	for range 2 {
		if err := s.Delete(l, id("new")); err != nil {
			t.Error(err)
		}
	}
	if r, fault, err := s.Get(t.Context(), l, id("new")); r != nil || fault != nil || err != nil {
		t.Errorf("a removed record: %v, %v, %v", r, fault, err)
	}
}

// TestDeclare checks that a file that all pods share can never make an operation fail.
func TestDeclare(t *testing.T) {
	k := kindOf(Line, Answers{Absent: "x", Corrupt: Refuse, Unreadable: Report, Newer: Report})
	k.Paths = At(identity.Layout.Serve, identity.ServeDir.Pressure)
	for name, change := range map[string]func(*Kind[content]){
		"":                     func(*Kind[content]) {},
		"a host's Refuse":      func(k *Kind[content]) { k.Scope = Host },
		"a missing answer":     func(k *Kind[content]) { k.On.Newer = "" },
		"no meaning of absent": func(k *Kind[content]) { k.On.Absent = "" },
		"no paths":             func(k *Kind[content]) { k.Paths = nil },
	} {
		one := *k
		change(&one)
		func() {
			defer func() {
				if got := recover() != nil; got != (name != "") {
					t.Errorf("%s: panic %t", name, got)
				}
			}()
			validate(&one)
		}()
	}
}

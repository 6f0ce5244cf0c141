package store

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podrun/podrun/internal/identity"
)

func fullOwner() OwnerRecord {
	return OwnerRecord{
		Schema: ownerSchema, Generation: Generation{Counter: 7, Token: "0f"}, UID: "u", Incarnation: "i", Purpose: PurposeRemove,
		Fresh: true, Doomed: true, Recreate: true, Attends: true, Claim: "c", Holder: "h",
		KilledAt: new(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), Deletion: &Deletion{At: time.Unix(1, 0).UTC(), GraceSeconds: 30},
		Ending:     map[string]time.Time{"a": time.Unix(2, 0).UTC()},
		Stops:      map[string]ContainerStop{"a": {Hook: StopHookRunning, HookSince: new(time.Unix(3, 0).UTC()), TermAt: new(time.Unix(4, 0).UTC())}},
		Unreleased: []string{"s"},
		Origin:     &Origin{Command: OriginApply, Settings: []byte(`{"a":1}`), RemovedAtEnd: true},
	}
}

// TestOwnerIsReadAgain checks that PodLock.Owner, which decodes a record only once, still detects a
// change of the file. It must detect the change immediately, even if the size of the file is the
// same. If the caller changes a result, the next result must not be affected.
func TestOwnerIsReadAgain(t *testing.T) {
	layout, id := testLayout(t), identity.Pod{Namespace: "default", Name: "web", UID: "u"}
	l := testLocks(layout).podLock(id)
	read := func() *OwnerRecord {
		t.Helper()
		r, err := l.Owner()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := read(); r != nil {
		t.Errorf("no record: %+v", r)
	}
	want := fullOwner()
	for _, token := range []string{"0f", "0e", "0f"} {
		want.Token = token
		if err := writeOwner(layout, id, want); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			r := read()
			if diff := cmp.Diff(&want, r); diff != "" {
				t.Fatalf("token %s (-want +got):\n%s", token, diff)
			}
			r.Token, r.Ending["b"], r.Unreleased[0], r.Deletion.GraceSeconds, r.Origin.Settings[0] = "", time.Time{}, "", 0, 0
		}
	}
	if err := removeOwner(layout, id); err != nil {
		t.Fatal(err)
	}
	if r := read(); r != nil {
		t.Errorf("a removed record: %+v", r)
	}
}

// TestOwnerCloneSharesNothing checks that a clone shares no memory with the record. It also covers
// fields that will be added to OwnerRecord: fullOwner must set them, and clone must copy the data to
// which they refer.
func TestOwnerCloneSharesNothing(t *testing.T) {
	full := fullOwner()
	a, b := reflect.ValueOf(&full).Elem(), reflect.ValueOf(full.clone()).Elem()
	if diff := cmp.Diff(a.Interface(), b.Interface()); diff != "" {
		t.Errorf("(-original +clone):\n%s", diff)
	}
	var compare func(path string, a, b reflect.Value)
	compare = func(path string, a, b reflect.Value) {
		if a.IsZero() {
			t.Errorf("%s is zero in the test's record", path)
			return
		}
		switch a.Kind() {
		case reflect.Pointer, reflect.Map, reflect.Slice:
			if a.Pointer() == b.Pointer() {
				t.Errorf("%s is shared", path)
			}
			if a.Kind() == reflect.Pointer {
				compare(path, a.Elem(), b.Elem())
			}
		case reflect.Struct:
			for i := range a.NumField() {
				if f := a.Type().Field(i); f.IsExported() {
					compare(path+"."+f.Name, a.Field(i), b.Field(i))
				}
			}
		}
	}
	compare("OwnerRecord", a, b)
}

func BenchmarkOwner(b *testing.B) {
	layout, id := identity.Layout{RootDir: b.TempDir()}, identity.Pod{Namespace: "default", Name: "web", UID: "u"}
	if err := writeOwner(layout, id, fullOwner()); err != nil {
		b.Fatal(err)
	}
	b.Run("PodLock.Owner", func(b *testing.B) {
		l := testLocks(layout).podLock(id)
		for b.Loop() {
			if _, err := l.Owner(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("ReadOwner", func(b *testing.B) {
		for b.Loop() {
			if _, err := ReadOwner(layout, id); err != nil {
				b.Fatal(err)
			}
		}
	})
}

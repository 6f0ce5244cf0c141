package store

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/test/patience"
)

// TestOwnerIsReadAfterEachChange covers two changes within a tick of the kernel's clock, which have the
// same time. In this test, they also have the same size.
func TestOwnerIsReadAfterEachChange(t *testing.T) {
	layout, id := identity.Layout{RootDir: t.TempDir()}, identity.Pod{Namespace: "default", Name: "web"}
	var d decodedOwner
	for i := range 500 {
		r := OwnerRecord{Generation: Generation{Counter: 1, Token: fmt.Sprintf("%08d", i)}}
		if err := writeOwner(layout, id, r); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got, err := d.read(layout, id); err != nil || got == nil || got.Token != r.Token {
				t.Fatalf("after write %d: %+v, %v", i, got, err)
			}
		}
	}
	if err := os.Remove(layout.Owner(id)); err != nil {
		t.Fatal(err)
	}
	if got, err := d.read(layout, id); got != nil || err != nil {
		t.Errorf("without a record: %+v, %v", got, err)
	}
}

// TestOwnerIsNotReadAgain checks that podrun does not open the file again if the file has not
// changed for a while, because each probe reads the owner twice.
func TestOwnerIsNotReadAgain(t *testing.T) {
	layout, id := identity.Layout{RootDir: t.TempDir()}, identity.Pod{Namespace: "default", Name: "web"}
	var d decodedOwner
	for fresh := false; !fresh; { // On a busy machine, the record may not be new any more when it is read.
		d = decodedOwner{}
		begun := time.Now()
		if err := writeOwner(layout, id, OwnerRecord{Generation: Generation{Counter: 1, Token: "a"}}); err != nil {
			t.Fatal(err)
		}
		first, err := d.read(layout, id)
		fresh = time.Since(begun) < settledOwner
		if err != nil || first == nil || fresh && d.file != (ownerFile{}) {
			t.Fatalf("a new record: %+v, %v; recorded as %+v", first, err, d.file)
		}
	}
	patience.Wait(t, patience.OnFake, "the record is settled", func() bool {
		if _, err := d.read(layout, id); err != nil {
			t.Fatal(err)
		}
		return d.file != (ownerFile{})
	})
	// The file does not contain this token, so the test detects a second read of the file.
	d.record.Token = "kept"
	if got, err := d.read(layout, id); err != nil || got == nil || got.Token != "kept" {
		t.Errorf("%+v, %v", got, err)
	}
	// A write in place, which podrun never does, still changes the time.
	if err := os.WriteFile(layout.Owner(id), []byte(`{"schema":1,"counter":2,"token":"b"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := d.read(layout, id); err != nil || got == nil || got.Token != "b" {
		t.Errorf("after a write in place: %+v, %v", got, err)
	}
	if err := hostfile.WriteUnsynced(layout.Owner(id), []byte(`{"schema":1,"counter":3,"token":"c"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := d.read(layout, id); err != nil || got == nil || got.Token != "c" {
		t.Errorf("after a write: %+v, %v", got, err)
	}
}

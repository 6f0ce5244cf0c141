package subid

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/podrun/podrun/internal/rootless"
)

func TestService(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "passwd: files sss\n": "", "subid: files\n": "", "subid:  sss # LDAP\n": "sss", "#subid: sss\n": "", "subid:\n": "", "\tsubid: ldap": "ldap",
	} {
		if got := service(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestQuery executes a program instead of getsubids.
func TestQuery(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\ncase \"$*\" in 'ann') echo 0: ann 100000 65536; echo 1: ann 300000 10 ;; '-g ann') echo 0: ann 5 7 ;; *) echo 'Error fetching ranges' >&2; exit 1 ;; esac\n"
	if err := os.WriteFile(filepath.Join(dir, "getsubids"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for kind, want := range map[Kind][]rootless.IDRange{Users: {{First: 100000, Count: 65536}, {First: 300000, Count: 10}}, Groups: {{First: 5, Count: 7}}} {
		if got, err := query(context.Background(), kind, "ann"); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v, want %v", kind, got, err, want)
		}
	}
	if got, err := query(context.Background(), Users, "bob"); err == nil {
		t.Errorf("a user without ranges has %v", got)
	}
}

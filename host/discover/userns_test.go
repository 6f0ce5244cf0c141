package discover

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/identity"
)

// TestOthersUserNS: pods of podruns with other root directories share the host's
// IDs, too.
func TestOthersUserNS(t *testing.T) {
	ours, theirs, broken := identity.Layout{RootDir: t.TempDir()}, identity.Layout{RootDir: t.TempDir()}, identity.Layout{RootDir: t.TempDir()}
	hold := func(l identity.Layout, uid, text string) {
		file := l.UserNS(uid)
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ids := func(first int) string {
		one := fmt.Sprintf(`[{"hostId": %d, "containerId": 0, "length": 65536}]`, first)
		return `{"uidMappings": ` + one + `, "gidMappings": ` + one + `}`
	}
	hold(ours, "a", ids(65536))
	hold(theirs, "b", ids(131072))
	hold(broken, "c", "{")
	m := machine{ctx: t.Context()}
	held, err := m.userNS(ours)
	if err != nil {
		t.Fatal(err)
	}
	held = m.othersUserNS(held, []host.Pod{{UID: "a", Managed: true}, {UID: "b", RootDir: theirs.RootDir}, {UID: "c", RootDir: broken.RootDir}})
	if want := map[string]uint32{"a": 65536, "b": 131072}; !maps.Equal(held, want) {
		t.Errorf("held are %v, want %v", held, want)
	}
}

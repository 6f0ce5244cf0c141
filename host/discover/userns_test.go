package discover

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/identity"
)

// writeUserNS writes the file of a pod's user namespace.
func writeUserNS(t *testing.T, l identity.Layout, uid, text string) {
	t.Helper()
	file := l.Pod(uid).UserNS()
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// ids returns the ID mappings of a pod whose range starts at first, in the format of the file that
// writeUserNS writes.
func ids(first int) string {
	one := fmt.Sprintf(`[{"hostId": %d, "containerId": 0, "length": 65536}]`, first)
	return `{"uidMappings": ` + one + `, "gidMappings": ` + one + `}`
}

// TestStoredUserNS checks that a pod counts as a pod without a range only if its checkpoint says
// so explicitly.
func TestStoredUserNS(t *testing.T) {
	layout := identity.Layout{RootDir: t.TempDir()}
	const head = `{"metadata":{"name":"web","namespace":"default"},"spec":{`
	first := 65536
	want := map[string]uint32{}
	for uid, text := range map[string]string{
		"json": head + `"hostUsers":false}}`, "yaml": "metadata: {name: web}\nspec: {hostUsers: false}\n",
		"corrupt": "{", "newer": "# podrun pod default/web\n# podrun schema 999\n{", "none": "",
	} {
		writeUserNS(t, layout, uid, ids(first))
		if want[uid] = uint32(first); text != "" {
			writeCheckpoint(t, layout, uid, text)
		}
		first += 65536
	}
	writeCheckpoint(t, layout, "host", head+`"hostUsers":true}}`)
	writeCheckpoint(t, layout, "default", head+`}}`)
	stored, err := podState{machine{ctx: t.Context()}, layout, &unreadable{}}.readStored()
	if err != nil || !maps.Equal(stored.userNS, want) {
		t.Errorf("held are %v, %v; want %v", stored.userNS, err, want)
	}
}

// TestOthersUserNS checks that the ranges of pods in other root directories count too: all pods
// share the host's IDs.
func TestOthersUserNS(t *testing.T) {
	ours, theirs, broken := identity.Layout{RootDir: t.TempDir()}, identity.Layout{RootDir: t.TempDir()}, identity.Layout{RootDir: t.TempDir()}
	writeUserNS(t, ours, "a", ids(65536))
	writeUserNS(t, theirs, "b", ids(131072))
	writeUserNS(t, broken, "c", "{")
	m := podState{machine: machine{ctx: t.Context()}, layout: ours}
	held, err := m.userNS()
	if err != nil {
		t.Fatal(err)
	}
	held = m.addForeignUserNS(held, []host.Pod{{UID: "a", Managed: true}, {UID: "b", RootDir: theirs.RootDir}, {UID: "c", RootDir: broken.RootDir}})
	if want := map[string]uint32{"a": 65536, "b": 131072}; !maps.Equal(held, want) {
		t.Errorf("held are %v, want %v", held, want)
	}
}

package store

import (
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/manifest"
)

// TestStoredNamed checks that StoredNamed reads only one directory if there is an owner record, and
// that it does not miss a pod because of the record.
func TestStoredNamed(t *testing.T) {
	web := identity.Pod{Namespace: "default", Name: "web", UID: "u-web"}
	older := identity.Pod{Namespace: "default", Name: "web", UID: "u-older"}
	db := identity.Pod{Namespace: "default", Name: "db", UID: "u-db"}
	owned := func(uid string) string { return `{"schema":1,"counter":1,"token":"00","uid":"` + uid + `"}` }
	for name, test := range map[string]struct {
		owner string // the pod in the record of default/web; "" if there is no record
		want  []identity.Pod
	}{
		"its record":                             {owned("u-web"), []identity.Pod{web}},
		"no record":                              {"", []identity.Pod{db, older, web}},
		"a corrupt record":                       {"{", []identity.Pod{db, older, web}},
		"the record of a pod that is removed":    {owned("u-gone"), []identity.Pod{db, older, web}},
		"a record with the UID of another pod":   {owned("u-db"), []identity.Pod{db, older, web}},
		"a record with a UID that is a path":     {owned("../u-web"), []identity.Pod{db, older, web}},
		"a record of a UID without a checkpoint": {owned("u-empty"), []identity.Pod{db, older, web}},
	} {
		t.Run(name, func(t *testing.T) {
			layout := testLayout(t)
			for _, id := range []identity.Pod{web, older, db} {
				if err := os.MkdirAll(string(layout.Pod(id.UID)), 0o750); err != nil {
					t.Fatal(err)
				}
				if err := WriteCheckpoint(layout, id, manifest.Checkpoint{Pod: &corev1.Pod{}}); err != nil {
					t.Fatal(err)
				}
			}
			for _, dir := range []string{string(layout.Pod("u-empty")), layout.Owners()} {
				if err := os.MkdirAll(dir, 0o750); err != nil {
					t.Fatal(err)
				}
			}
			if test.owner != "" {
				if err := os.WriteFile(layout.Owner(web), []byte(test.owner), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := StoredNamed(layout, identity.Pod{Namespace: "default", Name: "web"})
			slices.SortFunc(got, func(a, b identity.Pod) int { return strings.Compare(a.UID, b.UID) })
			if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("%v, %v; want %v", got, err, test.want)
			}
		})
	}
}

package stop

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/imagestore"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestRemoveImages checks what `image rm` removes of an image with the names app:1, app:stable and other/app:1, and
// of an image with one name. A pod uses app:1.
func TestRemoveImages(t *testing.T) {
	const app, stable, other, single, hash = "registry.example/app:1", "registry.example/app:stable", "registry.example/other/app:1", "registry.example/db:1", "1234567890123456789012345678901234567890123456789012345678901234"
	digest := func(repository string) string { return repository + "@sha256:" }
	for name, test := range map[string]struct {
		args    []string
		force   bool
		pod     bool
		removed []string // prefixes of the expected names
		left    []string // of the four names
		refused string   // of the containerd profile
		crio    string   // of CRI-O's profile; it has no service for names
	}{
		"another tag of the repository":   {args: []string{stable}, pod: true, removed: []string{stable}, left: []string{app, other, single}, crio: "cannot remove only one of its names"},
		"the last tag of its repository":  {args: []string{other}, pod: true, removed: []string{other, digest("registry.example/other/app")}, left: []string{app, stable, single}, crio: "cannot remove only one of its names"},
		"the name that a pod uses":        {args: []string{app}, pod: true, left: []string{app, stable, other, single}, refused: "is in use", crio: "is in use"},
		"the name that a pod uses, force": {args: []string{app}, pod: true, force: true, removed: []string{app}, left: []string{stable, other, single}, crio: "is in use"},
		"one after the other":             {args: []string{app, stable, other}, removed: []string{app, stable, digest("registry.example/app"), other, digest("registry.example/other/app")}, left: []string{single}, crio: "cannot remove only one of its names"},
		"an ID":                           {args: []string{hash}, left: []string{app, stable, other, single}, refused: "has several names: " + app + ", " + stable + ", " + other, crio: "has several names"},
		"an ID, force":                    {args: []string{hash}, force: true, removed: []string{app, stable, other, digest("registry.example/app"), digest("registry.example/other/app")}, left: []string{single}},
		"the only name":                   {args: []string{single}, removed: []string{single, digest("registry.example/db")}, left: []string{app, stable, other}},
	} {
		for _, profile := range []critest.Profile{critest.Containerd(), critest.CRIO()} {
			t.Run(fmt.Sprintf("%s/%s", name, profile.Name), func(t *testing.T) {
				r := rig.New(t, critest.As(profile))
				for _, n := range []string{app, stable, other} {
					r.Runtime.AddImage(critest.Image{Name: n, ID: "sha256:" + hash})
				}
				if test.pod {
					r.MustApply(rig.PodText("web", "Always", "containers: [{name: app, image: "+app+"}]"), run.OutcomeCreated)
				}
				r.Client = r.Dial()
				refused, removes, left := test.refused, test.removed, test.left
				if profile.Name == critest.CRIO().Name && test.crio != "" {
					refused, removes, left = test.crio, nil, []string{app, stable, other, single}
				}
				report, err := imagestore.Remove(t.Context(), r.Engine(), imagestore.RemoveInput{Images: test.args, Force: test.force})
				err = errors.Join(err, report.Err())
				removed := report.Done()
				if refused != "" {
					rig.WantErr(t, err, problem.Refused, refused)
				} else if err != nil {
					t.Error(err)
				}
				if len(removed) != len(removes) {
					t.Errorf("removed %v, want %q", removed, removes)
				}
				for i, want := range removes {
					if i < len(removed) && !strings.HasPrefix(removed[i].Name, want) {
						t.Errorf("removed %v, want %q", removed, removes)
					}
				}
				images, err := imagestore.List(t.Context(), r.Engine())
				if err != nil {
					t.Fatal(err)
				}
				var names []string
				for _, i := range images {
					names = append(names, i.Names...)
				}
				for _, n := range []string{app, stable, other, single} {
					if slices.Contains(names, n) != slices.Contains(left, n) {
						t.Errorf("%q remain, want %q", names, left)
					}
				}
			})
		}
	}
}

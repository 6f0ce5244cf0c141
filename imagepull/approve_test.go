package imagepull

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestApprove checks that a policy of the host applies to images that were pulled and to images that were present,
// under every pull policy, and to the ID that the container would use, also if a restored pod requests that ID.
func TestApprove(t *testing.T) {
	const image = "r.example/app:1"
	const restored = "r.example/app:0" // the registry of the tests has no other IDs
	for _, test := range []struct {
		policy, id string
		here       []string
	}{{"IfNotPresent", "", []string{image}}, {"IfNotPresent", "", nil}, {"Always", "", nil}, {"Always", "", []string{image}}, {"Never", "", []string{image}},
		{"Always", restored, []string{image, restored}}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRegistry(test.here...)
			asked := ""
			denied := errors.New("no signature")
			approve := func(_ context.Context, i Image, id string) error {
				asked = i.Name + " " + id
				return denied
			}
			plan := planOf(t, "containers:\n"+container("app", image, test.policy)).WithIDs(map[string]string{image: test.id})
			_, err := r.puller(Options{Approve: approve}).Start(t.Context(), plan).Wait(t.Context(), "app")
			wantFailure(t, err, ReasonSignature, Signature)
			if !errors.Is(err, denied) || asked != image+" sha256:"+cmp.Or(test.id, image) {
				t.Errorf("%+v: asked for %q: %v", test, asked, err)
			}
			denied = nil
			if _, err := r.puller(Options{Approve: approve}).Start(t.Context(), plan).Wait(t.Context(), "app"); err != nil {
				t.Errorf("%+v: %v", test, err)
			}
		})
	}
}

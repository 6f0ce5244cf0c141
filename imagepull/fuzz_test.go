package imagepull

import (
	"testing"

	"github.com/distribution/reference"
)

// FuzzNormalize checks that an accepted name has a tag or a digest after normalization, refers
// to the same image, and does not change if it is normalized again.
func FuzzNormalize(f *testing.F) {
	for _, seed := range []string{
		"busybox", "busybox:1.36", "registry.example:5000/a/b_c.d-e:T", "localhost/a", "a@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
		"a:b@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "[::1]:5000/a", "A", "a:", "a//b", "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "a:latest", "x/a:latest:latest", "docker.io/library/a",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, image string) {
		ref, err := normalize(image)
		if err != nil {
			return
		}
		before, err := reference.ParseNormalizedNamed(image)
		if err != nil {
			t.Fatal(err)
		}
		after, err := reference.ParseNormalizedNamed(ref)
		if err != nil || reference.IsNameOnly(after) || after.String() != reference.TagNameOnly(before).String() {
			t.Errorf("%q became %q: %v", image, ref, err)
		}
		if again, err := normalize(ref); err != nil || again != ref {
			t.Errorf("%q became %q, and that %q: %v", image, ref, again, err)
		}
	})
}

package imagepull

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/imagepull/auth"
)

// appDigest is a digest of the image app.
const appDigest = "sha256:6e65737465642061206c6f6e6720776179206f6666206f6e206120686f737421"

// killedPull leaves the intent of a process that was killed during a pull. before are the IDs of the images that
// were present before.
func killedPull(t *testing.T, r records, image string, before ...string) {
	t.Helper()
	p, err := r.intend(image, before)
	if err != nil {
		t.Fatal(err)
	}
	p.file.Close()
}

// TestKilledPull checks which pods may use an image after a process was killed while it pulled the image. Under
// the policies IfNotPresent and Never, an image that was present before remains usable without the registry. An
// image that the killed pull may have brought requires credentials (KEP-2535), under each of its names, and also
// after another pod without credentials has tried.
func TestKilledPull(t *testing.T) {
	const image = "r.example/private:1"
	id := imageOf(image).Id
	for name, test := range map[string]struct {
		pulled string // the name that the killed process was pulling
		before string // the ID of an image that was present
		user   string // the name in the pod
		secret *corev1.Secret
		fails  bool
	}{
		"present before":                             {pulled: image, before: id, user: image},
		"absent before":                              {pulled: image, user: image, fails: true},
		"absent before, and the pod may use it":      {pulled: image, user: image, secret: registrySecret("a", "u", "good")},
		"another image before":                       {pulled: image, before: "sha256:old", user: image, fails: true},
		"absent before, used by digest":              {pulled: image, user: "r.example/private@" + appDigest, fails: true},
		"absent before, pulled by digest":            {pulled: "r.example/private:1@" + appDigest, user: image, fails: true},
		"present before under another name":          {pulled: "mirror.example/private:1", before: id, user: image},
		"absent before, pulled under another name":   {pulled: "mirror.example/private:1", user: image, fails: true},
		"present before, used by digest":             {pulled: image, before: id, user: "r.example/private@" + appDigest},
		"a pull of an image that is not on the host": {pulled: "r.example/other:1", user: image},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRegistry()
				privately(r)
				found := imageOf(image)
				found.RepoTags, found.RepoDigests = []string{image, "mirror.example/private:1"}, []string{"r.example/private@" + appDigest}
				r.here[image], r.here[found.RepoDigests[0]] = found, found
				dir := t.TempDir()
				killedPull(t, records{dir}, test.pulled, test.before)
				puller := r.puller(Options{RecordDir: dir, Auth: (&auth.Keychain{}).Find})
				for _, policy := range []string{"Never", "IfNotPresent", "IfNotPresent", "Never"} {
					plan := planOf(t, "containers:\n"+container("app", test.user, policy))
					if test.secret != nil {
						plan.PullSecrets = []*corev1.Secret{test.secret}
					}
					pulls := puller.Start(t.Context(), plan)
					_, err := pulls.Wait(t.Context(), "app")
					pulls.Stop()
					fails := test.fails || test.secret != nil && r.tries[test.user] == 0
					if (err != nil) != fails {
						t.Errorf("%s: %v", policy, err)
					}
				}
				if !test.fails && test.secret == nil && len(r.tries) > 0 {
					t.Errorf("podrun contacted the registry: %v", r.tries)
				}
				left, err := os.ReadDir(filepath.Join(dir, "pulling"))
				if remains := test.fails || !strings.Contains(test.pulled, "private"); err != nil || (len(left) > 0) != remains {
					t.Errorf("%d intents remain, %v", len(left), err)
				}
			})
		})
	}
}

// TestPresentImageDuringPull checks that a pod uses an image that is present, under IfNotPresent and Never,
// while another process waits for a registry that does not answer, and that this pull leaves no intent.
func TestPresentImageDuringPull(t *testing.T) {
	for _, pullingAs := range []string{"docker.io/library/app:1", "app:1"} {
		synctest.Test(t, func(t *testing.T) {
			found := imageOf("app:1")
			found.RepoTags = []string{"docker.io/library/app:1"}
			r, dir := newRegistry(), t.TempDir()
			r.here["app:1"], r.here["docker.io/library/app:1"] = found, found
			r.slow["app:1"], r.slow["docker.io/library/app:1"] = time.Hour, time.Hour
			other := r.puller(Options{RecordDir: dir}).Start(t.Context(), planOf(t, "containers:\n"+container("app", pullingAs, "Always")))
			synctest.Wait()
			for _, policy := range []string{"IfNotPresent", "Never"} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				pulls := r.puller(Options{RecordDir: dir}).Start(ctx, planOf(t, "containers:\n"+container("app", "app:1", policy)))
				if _, err := pulls.Wait(ctx, "app"); err != nil {
					t.Errorf("%s: %v", policy, err)
				}
				pulls.Stop()
				cancel()
			}
			if left, err := os.ReadDir(filepath.Join(dir, "pulling")); err != nil || len(left) != 1 {
				t.Errorf("during the pull: %d intents, %v", len(left), err)
			}
			other.Stop()
			if left, err := os.ReadDir(filepath.Join(dir, "pulling")); err != nil || len(left) != 0 {
				t.Errorf("after the pull: %d intents, %v", len(left), err)
			}
		})
	}
}

// TestFullName checks that all spellings of a name have one record.
func TestFullName(t *testing.T) {
	for image, want := range map[string]string{
		"app": "docker.io/library/app:latest", "app:1": "docker.io/library/app:1", "docker.io/library/app:1": "docker.io/library/app:1",
		"r.example:5000/app:1@" + appDigest: "r.example:5000/app@" + appDigest, "r.example/app@" + appDigest: "r.example/app@" + appDigest,
		"Not A Name": "Not A Name",
	} {
		if got := FullName(image); got != want {
			t.Errorf("%s: %s, want %s", image, got, want)
		}
	}
	var none *runtimeapi.Image
	if got := fullNames("app", none); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

package imagepull

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podrun/podrun/imagepull/auth"
)

// registrySecret returns a Secret for r.example.
func registrySecret(name, user, password string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{"r.example":{"username":"` + user + `","password":"` + password + `"}}}`)}}
}

// privately makes the registry require the password "good".
func privately(r *registry) {
	r.pull = func(_ int, req *runtimeapi.PullImageRequest) error {
		if strings.Contains(req.Image.Image, "private") && req.Auth.GetPassword() != "good" {
			return status.Error(codes.Unknown, "401 Unauthorized")
		}
		return nil
	}
}

// TestWhichPodsMayUseAPresentImage checks which pods may use an image that is present because
// another pod has pulled it.
func TestWhichPodsMayUseAPresentImage(t *testing.T) {
	const private, public = "r.example/private:1", "r.example/public:1"
	good, renamed, bad := registrySecret("a", "u", "good"), registrySecret("b", "u", "good"), registrySecret("a", "u", "bad")
	never, allowlist, always := kubelet.NeverVerify, kubelet.NeverVerifyAllowlistedImages, kubelet.AlwaysVerify
	for name, test := range map[string]struct {
		image     string
		preloaded bool           // whether the image was present before podrun pulled any image
		puller    *corev1.Secret // the Secret of the pod that pulled the image; nil if no pod pulled it
		user      *corev1.Secret // the Secret of the pod that requests the image
		policy    kubelet.ImagePullCredentialsVerificationPolicy
		allowed   string
		// the expected number of pulls for the pod that requests the image
		pulls int
		fails string // the expected error of that pod
	}{
		"the same Secret":                              {image: private, puller: good, user: good},
		"the same credentials elsewhere":               {image: private, puller: good, user: renamed},
		"without any":                                  {image: private, puller: good, pulls: 1, fails: "ErrImagePull: 401"},
		"a Secret of that name, with another password": {image: private, puller: good, user: bad, pulls: 1, fails: "ErrImagePull: 401"},
		"of no registry's business":                    {image: private, puller: good, policy: never},
		"pulled without credentials":                   {image: public},
		"pulled with some, not needed":                 {image: public, puller: good, pulls: 1},
		"preloaded":                                    {image: private, preloaded: true},
		"preloaded, and all are verified":              {image: private, preloaded: true, policy: always, pulls: 1, fails: "401"},
		"preloaded, verified, and may":                 {image: private, preloaded: true, policy: always, user: good, pulls: 1},
		"preloaded and listed":                         {image: private, preloaded: true, policy: allowlist, allowed: "r.example/*"},
		"preloaded and not listed":                     {image: private, preloaded: true, policy: allowlist, allowed: "r.example/other", pulls: 1, fails: "401"},
		"pulled and listed":                            {image: private, puller: good, policy: allowlist, allowed: "r.example/private"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRegistry()
			privately(r)
			keys := &auth.Keychain{}
			puller := r.puller(Options{RecordDir: t.TempDir(), Auth: keys.Find, Verify: Verification{Policy: test.policy, Allowlist: []string{test.allowed}}})
			get := func(secret *corev1.Secret, policy string) error {
				plan := planOf(t, "containers:\n"+container("app", test.image, policy))
				if secret != nil {
					plan.PullSecrets = []*corev1.Secret{secret}
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				pulls := puller.Start(ctx, plan)
				defer pulls.Stop()
				_, err := pulls.Wait(ctx, "app")
				return err
			}
			if test.preloaded {
				r.here[test.image] = imageOf(test.image)
			} else if err := get(test.puller, "IfNotPresent"); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			before := r.tries[test.image]
			err := get(test.user, "IfNotPresent")
			if got := r.tries[test.image] - before; got != test.pulls || (err != nil) != (test.fails != "") || err != nil && !strings.Contains(err.Error(), test.fails) {
				t.Errorf("%s: %d pulls, %v", name, got, err)
			}
			// With the pull policy Never, podrun must not contact the registry. If a pod must prove
			// its access to an image, podrun must refuse the image.
			before = r.tries[test.image]
			err = get(test.user, "Never")
			if r.tries[test.image] != before || (err != nil) != (test.fails != "") || err != nil && !strings.Contains(err.Error(), ReasonNeverPull) {
				t.Errorf("%s: Never: %v", name, err)
			}
		})
	}
}

// TestConcurrentPullsEachProveAccess checks two pods of one command that request the same image at
// the same time. The pod that lacks the credentials must not get the image that podrun pulled with
// the other pod's credentials.
func TestConcurrentPullsEachProveAccess(t *testing.T) {
	for _, policy := range []string{"IfNotPresent", "Always"} {
		synctest.Test(t, func(t *testing.T) { eachShowsItsOwn(t, policy) })
	}
}

func eachShowsItsOwn(t *testing.T, policy string) {
	const image = "r.example/private:1"
	r := newRegistry()
	privately(r)
	r.slow[image] = 5 * time.Second
	puller := r.puller(Options{RecordDir: t.TempDir(), Auth: (&auth.Keychain{}).Find})
	with := planOf(t, "containers:\n"+container("app", image, policy))
	without := with
	with.PullSecrets = []*corev1.Secret{registrySecret("a", "u", "good")}
	first, second := puller.Start(t.Context(), with), puller.Start(t.Context(), without)
	defer first.Stop()
	defer second.Stop()
	if _, err := first.Wait(t.Context(), "app"); err != nil {
		t.Error(err)
	}
	_, err := second.Wait(t.Context(), "app")
	wantFailure(t, err, ReasonPull, Unauthorized)
}

// TestRecords checks that only root can read the records. They must contain no credentials, must be
// removed with their image, and must be ignored if they are invalid.
func TestRecords(t *testing.T) {
	dir := t.TempDir()
	r := records{filepath.Join(dir, "image_manager")}
	secret := registrySecret("a", "u", "pa55w0rd")
	with := auth.Credential{Auth: &runtimeapi.AuthConfig{Username: "u", Password: "pa55w0rd"}, Secret: secret}
	image := &runtimeapi.Image{Id: "id", RepoTags: []string{"docker.io/library/app:1"}}
	first, err := r.intend("app:1", nil)
	if err != nil {
		t.Fatal(err)
	}
	if record, ours := r.find("app:1", image); record != nil || !ours {
		t.Errorf("during the pull: %v %v", record, ours)
	}
	second, err := r.intend("app:1", []string{"other"})
	if err != nil {
		t.Fatal(err)
	}
	first.end(true)
	if _, ours := r.find("app:1", image); !ours {
		t.Error("another pull of the image still counts as active")
	}
	if err := r.add("app:1", "id", usedBy(with)); err != nil {
		t.Fatal(err)
	}
	second.end(true)
	if left, _ := os.ReadDir(filepath.Join(r.dir, "pulling")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	file := r.pulled("id")
	data, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(data), "pa55w0rd") {
		t.Errorf("%v: %s", err, data)
	}
	for path, want := range map[string]os.FileMode{file: 0o600, filepath.Dir(file): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v %v", path, info.Mode(), err)
		}
	}
	var kept kubelet.ImagePulledRecord
	if err := json.Unmarshal(data, &kept); err != nil || kept.Kind != "ImagePulledRecord" || kept.ImageRef != "id" ||
		len(kept.CredentialMapping["app"].KubernetesSecrets) != 1 || len(kept.CredentialMapping["app"].KubernetesSecrets[0].CredentialHash) != 64 {
		t.Errorf("%v: %s", err, data)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if record, ours := r.find("app:1", image); record != nil || !ours {
		t.Errorf("broken: %v %v", record, ours)
	}
	if err := ForgetPulls(r.dir, []string{"id"}); err != nil {
		t.Error(err)
	}
	if _, ours := r.find("app:1", image); !ours {
		t.Error("the record was removed although its image is present")
	}
	if err := ForgetPulls(r.dir, nil); err != nil {
		t.Error(err)
	}
	if _, ours := r.find("app:1", image); ours {
		t.Error("the record was kept although its image was removed")
	}
	if err := ForgetPulls(filepath.Join(dir, "none"), nil); err != nil {
		t.Error(err)
	}
}

// TestEveryPodMayUseAPreloadedImage checks that every pod may use an image that was loaded
// manually, regardless of which pod has pulled it before, and of the spelling of its name.
func TestEveryPodMayUseAPreloadedImage(t *testing.T) {
	image := &runtimeapi.Image{Id: "id", RepoTags: []string{"docker.io/library/app:1"}, RepoDigests: []string{"docker.io/library/app@" + appDigest}}
	for _, spelling := range []string{"app:1", "library/app:1", "docker.io/app:1", "docker.io/library/app:1", "app@" + appDigest, "app:1@" + appDigest} {
		r := records{t.TempDir()}
		killedPull(t, r, spelling)
		if err := r.add("app:1", "id", kubelet.ImagePullCredentials{}); err != nil {
			t.Fatal(err)
		}
		if err := Preloaded(r.dir, "docker.io/library/app:1", image); err != nil {
			t.Error(err)
		}
		for _, name := range []string{spelling, "app:1"} {
			if _, ours := r.find(name, image); ours {
				t.Errorf("%s, pulled as %s: not every pod may use it", name, spelling)
			}
		}
		if err := Preloaded(r.dir, "other:1", &runtimeapi.Image{Id: "other"}); err != nil {
			t.Error(err)
		}
	}
}

func TestMergeOfRecords(t *testing.T) {
	hash := func(hashes ...string) (c kubelet.ImagePullCredentials) {
		for _, h := range hashes {
			c.KubernetesSecrets = append(c.KubernetesSecrets, kubelet.ImagePullSecret{Namespace: "ns", Name: "a", CredentialHash: h})
		}
		return c
	}
	all := kubelet.ImagePullCredentials{NodePodsAccessible: true}
	if got, changed := merge(hash("1"), hash("1")); changed || len(got.KubernetesSecrets) != 1 {
		t.Errorf("%v", got)
	}
	if got, changed := merge(hash("1"), hash("2")); !changed || len(got.KubernetesSecrets) != 2 {
		t.Errorf("%v", got)
	}
	if got, changed := merge(hash("1"), all); !changed || !got.NodePodsAccessible || got.KubernetesSecrets != nil {
		t.Errorf("%v", got)
	}
	if got, changed := merge(all, hash("1")); changed || !got.NodePodsAccessible {
		t.Errorf("%v", got)
	}
	many := hash()
	for i := range 150 {
		many, _ = merge(many, hash(strings.Repeat("x", i+1)))
	}
	if n := len(many.KubernetesSecrets); n != maxRecorded || many.KubernetesSecrets[n-1].CredentialHash != strings.Repeat("x", 150) {
		t.Errorf("%d", n)
	}
}

func TestWithoutTag(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("a", 64)
	for image, want := range map[string]string{
		"busybox": "busybox", "busybox:1": "busybox", "h:5000/a/b:1" + digest: "h:5000/a/b", "h:5000/a/b" + digest: "h:5000/a/b", "Not A Name": "Not A Name",
	} {
		if got := WithoutTag(image); got != want {
			t.Errorf("%s: %s, want %s", image, got, want)
		}
	}
}

// TestCorruptRecordCountsForNothing (F4) checks that the pod must contact the registry if a record
// is corrupt, or is not a file. This must not be an error.
func TestCorruptRecordCountsForNothing(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"empty":     func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"null":      func(path string) error { return os.WriteFile(path, []byte("null"), 0o600) },
		"a list":    func(path string) error { return os.WriteFile(path, []byte("[null]"), 0o600) },
		"cut short": func(path string) error { return os.WriteFile(path, []byte(`{"imageRef": "id`), 0o600) },
		"too large": func(path string) error { return os.WriteFile(path, make([]byte, maxRecord+1), 0o600) },
		"a FIFO":    func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a mapping": func(path string) error {
			return os.WriteFile(path, []byte(`{"imageRef": "id", "credentialMapping": null}`), 0o600)
		},
		"a dead end": func(path string) error { return os.Symlink(path, path) },
	} {
		t.Run(name, func(t *testing.T) {
			r := records{t.TempDir()}
			unlock, err := r.lock() // lock creates the directories
			if err != nil {
				t.Fatal(err)
			}
			unlock()
			if err := spoil(r.pulled("id")); err != nil {
				t.Fatal(err)
			}
			image := &runtimeapi.Image{Id: "id"}
			if _, ours := r.find("app:1", image); !ours {
				t.Error("podrun did not pull the image")
			}
			if err := r.add("app:1", "id", kubelet.ImagePullCredentials{NodePodsAccessible: true}); err != nil {
				t.Fatal(err)
			}
			record, _ := r.find("app:1", image)
			if record == nil || !record.CredentialMapping["app"].NodePodsAccessible {
				t.Errorf("the record was not written again: %+v", record)
			}
		})
	}
}

// TestCorruptBackOffCountsForNothing (F4) checks that a corrupt record of a pod's back-off is
// treated as missing.
func TestCorruptBackOffCountsForNothing(t *testing.T) {
	for _, text := range []string{"", "null", "{}", `[null]`, `[{"ref": 1}]`, `[{"ref": "a", "delay": "x"}]`} {
		m := backOffDir{t.TempDir()}
		if err := os.WriteFile(m.path("u"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var b backOff
		m.read(&b, "u", time.Now())
		if left := b.Left(backOffKey{UID: "u", Ref: "a"}, time.Now()); left != 0 {
			t.Errorf("%q: %s left", text, left)
		}
	}
}

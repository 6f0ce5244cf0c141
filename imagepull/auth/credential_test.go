package auth

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/credentialprovider"
)

// usersOf returns the user names of credentials, in order.
func usersOf(found []Credential) []string {
	out := []string{}
	for _, c := range found {
		out = append(out, c.Auth.GetUsername()+c.Auth.GetIdentityToken())
	}
	return out
}

func wantUsers(t *testing.T, found Found, want []string) {
	t.Helper()
	if diff := cmp.Diff(want, usersOf(found.Credentials)); diff != "" {
		t.Errorf("users:\n%s", diff)
	}
}

// auths returns the entries of a docker config. The user of each entry is the registry's name.
func auths(registries ...string) string {
	all := map[string]any{}
	for _, r := range registries {
		all[r] = map[string]string{"auth": base64.StdEncoding.EncodeToString([]byte(strings.ReplaceAll(r, ":", ";") + ":pw"))}
	}
	data, _ := json.Marshal(all)
	return string(data)
}

func pullSecret(name, config string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(config)}}
}

// TestMatchingIsTheKubelets checks that keys match registries as in the kubelet's own keyring.
func TestMatchingIsTheKubelets(t *testing.T) {
	keys := []string{"r.example", "*.example", "*.r.example", "r.example:5000", "r.example/shop", "https://r.example/v1/", "http://r.example/v2/shop",
		"r.example/shop/app", "r*.example", "127.0.0.1:5000", "https://index.docker.io/v1/", "docker.io", "index.docker.io", "*.io", "[::1]:5000", "%zz"}
	images := []string{"r.example/app:1", "r.example:5000/app", "r.example/shop/app@sha256:" + strings.Repeat("a", 64), "r.example/shopping", "a.r.example/x", "a.b.r.example/x",
		"busybox", "busybox:1", "team/app", "docker.io/team/app", "quay.io/a/b", "127.0.0.1:5000/app", "127.0.0.1/app", "rr.example/x"}
	for _, image := range images {
		repository, err := repositoryOf(image)
		if err != nil {
			t.Fatal(err)
		}
		for i := range keys {
			for _, set := range [][]string{{keys[i]}, keys[:i+1], keys[i:]} {
				c, err := parseConfig([]byte(`{"auths":`+auths(set...)+`}`), false)
				if err != nil {
					t.Fatal(err)
				}
				var kubelets credentialprovider.DockerConfigJSON
				if err := json.Unmarshal([]byte(`{"auths":`+auths(set...)+`}`), &kubelets); err != nil {
					t.Fatal(err)
				}
				ring := credentialprovider.BasicDockerKeyring{}
				want := map[string]int{}
				// The keyring gets one entry at a time, because the order of a map is random.
				for key, e := range kubelets.Auths {
					ring.Add(nil, credentialprovider.DockerConfig{key: e})
				}
				tracked, _ := ring.Lookup(repository)
				for _, a := range tracked {
					want[a.Username]++
				}
				got := map[string]int{}
				for _, user := range usersOf(matching(entriesOf(c, "x"), repository)) {
					got[user]++
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s with %v: %s", image, set, diff)
				}
			}
		}
	}
}

func TestTheMostSpecificComesFirst(t *testing.T) {
	entries, err := secretEntries([]*corev1.Secret{
		pullSecret("wide", `{"auths":`+auths("r.example", "other.example")+`}`),
		pullSecret("narrow", `{"auths":`+auths("r.example/shop")+`}`),
		{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "old"}, Type: corev1.SecretTypeDockercfg,
			Data: map[string][]byte{corev1.DockerConfigKey: []byte(auths("https://r.example/v1/"))}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "opaque"}, Type: corev1.SecretTypeOpaque,
			Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte("{")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(matching(entries, "r.example/shop/app"))
	if want := "[Secret shop/narrow Secret shop/wide Secret shop/old]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestEntries(t *testing.T) {
	b64 := base64.StdEncoding.EncodeToString
	for what, test := range map[string]struct{ entry, user, password, token string }{
		"auth":            {`{"auth":"` + b64([]byte("u:p:q")) + `"}`, "u", "p:q", ""},
		"no padding":      {`{"auth":"` + base64.RawStdEncoding.EncodeToString([]byte("u:p1")) + `"}`, "u", "p1", ""},
		"NULs":            {`{"auth":"` + b64([]byte("u:p\x00\x00")) + `"}`, "u", "p", ""},
		"auth wins":       {`{"auth":"` + b64([]byte("u:p")) + `","username":"x","password":"y"}`, "u", "p", ""},
		"plain":           {`{"username":"u","password":"p","email":"e"}`, "u", "p", ""},
		"identity token":  {`{"auth":"` + b64([]byte("00000000:")) + `","identitytoken":"t0ken"}`, "", "", "t0ken"},
		"a store has it":  {`{}`, "", "", ""},
		"a store has it2": {`{"email":"e"}`, "", "", ""},
	} {
		c, err := parseConfig([]byte(`{"auths":{"r.example":`+test.entry+`}}`), false)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		found := matching(entriesOf(c, "x"), "r.example/app")
		if test.user == "" && test.token == "" {
			if len(found) != 0 {
				t.Errorf("%s: %v", what, usersOf(found))
			}
			continue
		}
		if len(found) != 1 || found[0].Auth.Username != test.user || found[0].Auth.Password != test.password || found[0].Auth.IdentityToken != test.token {
			t.Errorf("%s: %+v", what, usersOf(found))
		}
	}
}

// TestBrokenConfigsAreNotQuoted checks that problems of a docker config are reported without its
// content.
func TestBrokenConfigsAreNotQuoted(t *testing.T) {
	for config, want := range map[string]string{
		`{"auths":{"r.example":{"auth":"s3cret!"}}}`:                          `Secret shop/x: .dockerconfigjson: the auth of registry "r.example" is not base64`,
		`{"auths":{"https://u:s3cret@r.example/s3cret":{"auth":"czNjcmV0"}}}`: `Secret shop/x: .dockerconfigjson: the auth of registry "r.example" is not username:password in base64`,
		`s3cret`:             `Secret shop/x: .dockerconfigjson: is not a docker config in JSON`,
		`{"auths":"s3cret"}`: `Secret shop/x: .dockerconfigjson: is not a docker config in JSON`,
	} {
		_, err := secretEntries([]*corev1.Secret{pullSecret("x", config)})
		if err == nil || err.Error() != want {
			t.Errorf("%v\n\twant %s", err, want)
		}
	}
}

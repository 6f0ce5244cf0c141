package auth

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// write writes a file in a directory and returns its path.
func write(t *testing.T, dir, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// helpers installs credential helpers in a new directory on $PATH.
func helpers(t *testing.T, scripts map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, script := range scripts {
		write(t, dir, "docker-credential-"+name, "#!/bin/sh\n"+script, 0o755)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func TestKeychainsOrder(t *testing.T) {
	helpers(t, map[string]string{"fixed": `[ "$1" = get ] && read s && [ "$s" = r.example ] && echo '{"ServerURL":"r.example","Username":"helper","Secret":"pw"}'`})
	dir := t.TempDir()
	k := &Keychain{
		AuthFile: write(t, dir, "auth.json", `{"auths":{"r.example":{"username":"named","password":"p"}}}`, 0o600),
		Files: []string{
			write(t, dir, "a/config.json", `{"auths":{"r.example":{"username":"first","password":"p"}},"credHelpers":{"r.example":"fixed"},"credsStore":"absent"}`, 0o600),
			filepath.Join(dir, "missing", "config.json"),
			write(t, dir, "b/config.json", `{"auths":{"r.example":{"username":"second","password":"p"},"q.example":{}}}`, 0o600),
		},
		Legacy:         []string{write(t, dir, ".dockercfg", `{"r.example":{"username":"legacy","password":"p"}}`, 0o600)},
		ProviderDir:    filepath.Join(dir, "bin"),
		ProviderConfig: write(t, dir, "providers.yaml", providerConfig, 0o600),
	}
	write(t, dir, "bin/plugin", pluginScript, 0o755)
	secrets := []*corev1.Secret{pullSecret("x", `{"auths":{"r.example":{"username":"secret","password":"p"}}}`)}
	found, err := k.Find(t.Context(), secrets, "r.example/app:1")
	if err != nil || len(found.Notes) != 0 {
		t.Fatalf("%v %v", found.Notes, err)
	}
	wantUsers(t, found, []string{"secret", "named", "plugin", "first", "helper", "second"})
	k.Files = nil
	if found, err = k.Find(t.Context(), nil, "r.example/app:1"); err != nil {
		t.Fatal(err)
	}
	wantUsers(t, found, []string{"named", "plugin", "legacy"})
	if found, err = k.Find(t.Context(), secrets, "q.example/app:1"); err != nil || len(found.Credentials) != 0 {
		t.Errorf("%v, %v", found, err)
	}
}

const providerConfig = `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: plugin
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: ["*.example", "r.other:5000/team"]
  defaultCacheDuration: 1h
  args: ["--for=podrun"]
  env: [{name: WHO, value: plugin}]
`

// pluginScript is a plugin that responds according to the request, and counts its calls.
const pluginScript = `#!/bin/sh
echo >>"$0.calls"
read request
[ "$1" = --for=podrun ] || exit 3
case $request in *'"kind":"CredentialProviderRequest"'*'"image":"r.example/'*) ;; *) exit 4;; esac
echo '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Registry",
  "auth":{"*.example":{"username":"'$WHO'","password":"pw"},"other.example":{"username":"x","password":"y"}}}'
`

// TestProvidersAnswersAreKept checks that the response of a plugin is cached as the response
// specifies, and that an image of another registry causes another call. If a plugin fails, a note
// must report that without the plugin's output.
func TestProvidersAnswersAreKept(t *testing.T) {
	dir := t.TempDir()
	k := &Keychain{ProviderDir: dir, ProviderConfig: write(t, dir, "providers.yaml", providerConfig, 0o600)}
	plugin := write(t, dir, "plugin", pluginScript, 0o755)
	for ref, want := range map[string]string{"r.example/a:1": "[plugin]", "r.example/b": "[plugin]", "r.other:5000/x": "[]"} {
		found, err := k.Find(t.Context(), nil, ref)
		if got := fmt.Sprint(usersOf(found.Credentials)); err != nil || got != want || len(found.Notes) > 0 {
			t.Errorf("%s: %s, want %s; %v %v", ref, got, want, found.Notes, err)
		}
	}
	if calls, err := os.ReadFile(plugin + ".calls"); err != nil || len(calls) != 1 {
		t.Errorf("%d calls, %v", len(calls), err)
	}
	found, err := k.Find(t.Context(), nil, "s.example/a")
	if err != nil || len(found.Notes) != 1 || !strings.HasSuffix(found.Notes[0], "/plugin: exit status 4") {
		t.Errorf("%v %v", found.Notes, err)
	}
}

func TestProviderConfigsThatAreWrong(t *testing.T) {
	for text, want := range map[string]string{
		"kind: Pod\napiVersion: v1\n":                                                                       "json: unknown field",
		strings.Replace(providerConfig, "CredentialProviderConfig", "Config", 1):                            "not a CredentialProviderConfig",
		strings.Replace(providerConfig, "name: plugin", "name: ../plugin", 1):                               "the name must be the name of a file",
		strings.Replace(providerConfig, `["*.example", "r.other:5000/team"]`, "[]", 1):                      "matchImages is empty",
		strings.Replace(providerConfig, "  defaultCacheDuration: 1h\n", "", 1):                              "defaultCacheDuration is missing",
		strings.Replace(providerConfig, "credentialprovider.kubelet.k8s.io/v1", "credentialprovider/v1", 1): "is not credentialprovider.kubelet.k8s.io/v1",
		providerConfig + strings.SplitAfterN(providerConfig, "providers:\n", 2)[1]:                          "defined twice",
		strings.Replace(providerConfig, "  args", "  argz", 1):                                              `unknown field`,
	} {
		if _, err := parseProviders([]byte(text)); want == "json: unknown field" {
			if err == nil {
				t.Error("a Pod was accepted")
			}
		} else if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestHelpers(t *testing.T) {
	helpers(t, map[string]string{
		"hub":     `read s; [ "$s" = https://index.docker.io/v1/ ] && echo '{"Username":"<token>","Secret":"t0ken"}'`,
		"none":    `echo credentials not found in native keychain; exit 1`,
		"fails":   `echo s3cret; echo s3cret >&2; exit 7`,
		"odd":     `echo s3cret`,
		"endless": `exec yes s3cret`,
	})
	dir := t.TempDir()
	for config, want := range map[string]string{
		`{"credsStore":"hub"}`: "[t0ken] []",
		`{"credHelpers":{"docker.io":"none"},"credsStore":"hub"}`: "[t0ken] []",
		`{"credHelpers":{"index.docker.io":"none"}}`:              "[] []",
		`{"credsStore":"none"}`:                                   "[] []",
		`{"credsStore":"fails"}`:                                  "[] [FILE: docker-credential-fails: exit status 7]",
		`{"credsStore":"odd"}`:                                    "[] [FILE: docker-credential-odd: its output is not the JSON of a credential helper]",
		`{"credsStore":"endless"}`:                                "[] [FILE: docker-credential-endless: its output is longer than 1048576 bytes]",
		`{"credsStore":"not-here"}`:                               "[] [FILE: docker-credential-not-here: is not in $PATH]",
		`{"credsStore":"../sh"}`:                                  `[] [FILE: "../sh" is not the name of a credential helper]`,
		`s3cret`:                                                  "[] [FILE is not a docker config in JSON]",
	} {
		file := write(t, dir, "config.json", config, 0o600)
		found, err := (&Keychain{Files: []string{file}}).Find(t.Context(), nil, "busybox")
		got := strings.ReplaceAll(fmt.Sprint(usersOf(found.Credentials), found.Notes), file, "FILE")
		if err != nil || strings.ReplaceAll(got, "] [", "] [") != want {
			t.Errorf("%s: %s %v, want %s", config, got, err, want)
		}
	}
}

// TestNamedFilesMustBeThere checks that the files that the user named must exist and be valid.
func TestNamedFilesMustBeThere(t *testing.T) {
	dir := t.TempDir()
	bad := write(t, dir, "bad", "s3cret", 0o600)
	missing := filepath.Join(dir, "missing")
	for want, k := range map[string]*Keychain{
		"open " + missing + ": no such file or directory": {AuthFile: missing},
		bad + " is not a docker config in JSON":           {AuthFile: bad},
		"open " + missing:                                 {ProviderConfig: missing},
		bad + ": ":                                        {ProviderConfig: bad},
	} {
		for range 2 {
			if _, err := k.Find(t.Context(), nil, "busybox"); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
	}
}

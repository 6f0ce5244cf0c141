package serve

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/serve"
	"github.com/podrun/podrun/serve/source/signature"
	"github.com/podrun/podrun/test/engine/rig"
	"github.com/podrun/podrun/test/ring"
)

// TestServeSourceVerify checks a signed directory from its file to its pod: a change without a signature has no effect,
// and the log, /readyz and get --sources show the reason; an older release is refused, also by the next serve.
func TestServeSourceVerify(t *testing.T) {
	t.Parallel()
	ring.RequireRoot(t)
	r := rig.New(t)
	dir := filepath.Join(r.Settings.RootDir, "signed")
	signers := filepath.Join(r.Settings.RootDir, "allowed_signers")
	key, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	write := func(path string, data []byte) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(signers, append([]byte("release "), ssh.MarshalAuthorizedKey(key.PublicKey())...))
	release := func(serial int, pod string) {
		t.Helper()
		text := []byte(rig.ServedPod(pod))
		sums := fmt.Appendf(nil, "# serial %d\n%x  pod.yaml\n", serial, sha256.Sum256(text))
		sig, err := sshsig.Sign(bytes.NewReader(sums), key, sshsig.HashSHA512, signature.Namespace)
		if err != nil {
			t.Fatal(err)
		}
		write(filepath.Join(dir, "pod.yaml"), text)
		write(filepath.Join(dir, "SHA256SUMS"), sums)
		write(filepath.Join(dir, "SHA256SUMS.sig"), sshsig.Armor(sig))
	}
	release(1, "web")
	get := rig.API(t, r, serve.Options{Dirs: []string{dir}, SourceVerify: signers})
	rig.Eventually(t, "web runs", r.Has("web"))
	refused := func(reason string) {
		t.Helper()
		rig.Eventually(t, "a warning", func() bool { return r.Warned(reason) > 0 })
		sources, err := serve.ReadSources(t.Context(), r.Layout())
		if err != nil || len(sources) != 1 || sources[0].State != "Unverified" || !strings.Contains(sources[0].Reason(), reason) {
			t.Errorf("sources %+v, %v", sources, err)
		}
		if code, text := get("/readyz"); code == http.StatusOK || !strings.Contains(text, reason) {
			t.Errorf("/readyz: %d %s", code, text)
		}
	}
	write(filepath.Join(dir, "pod.yaml"), []byte(rig.ServedPod("evil")))
	refused("pod.yaml: its content differs from the listed one")
	release(3, "db")
	rig.Eventually(t, "db runs instead of web", func() bool { return r.Has("db")() && !r.Has("web")() })
	if code, text := get("/readyz"); code != http.StatusOK {
		t.Errorf("/readyz: %s", text)
	}
	release(2, "web")
	refused("the serial 2 is below that of the last content, 3")
	if r.Has("web")() || r.Has("evil")() || !r.Has("db")() {
		t.Error("content that is not verified has an effect")
	}
	if c, fault, err := store.ReadAccepted(t.Context(), r.Layout(), dir); err != nil || fault != nil || c.Serial != 3 {
		t.Errorf("the record: %+v, %v, %v", c, fault, err)
	}
}

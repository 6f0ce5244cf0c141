package signature

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
)

func file(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func signers(t testing.TB, text string) Signers {
	t.Helper()
	s, err := ParseSigners([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newKey(t testing.TB) ssh.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func line(key ssh.PublicKey) string {
	return "a@b " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) + "\n"
}

// sign signs as ssh-keygen -Y sign does.
func sign(t testing.TB, key ssh.Signer, message []byte, namespace string) []byte {
	t.Helper()
	sig, err := sshsig.Sign(bytes.NewReader(message), key, sshsig.HashSHA512, namespace)
	if err != nil {
		t.Fatal(err)
	}
	return sshsig.Armor(sig)
}

// TestVerify verifies signatures of OpenSSH's ssh-keygen, one for each type of key.
func TestVerify(t *testing.T) {
	all, sums := signers(t, string(file(t, "allowed_signers"))), file(t, "SHA256SUMS")
	for _, name := range []string{"ed25519.sig", "ecdsa.sig", "rsa.sig"} {
		sig := file(t, name)
		if err := all.Verify(sums, sig); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		changed := bytes.Replace(sums, []byte("serial 7"), []byte("serial 8"), 1)
		if err := all.Verify(changed, sig); err == nil || !strings.Contains(err.Error(), "does not match") {
			t.Errorf("%s: changed content: %v", name, err)
		}
		other := signers(t, line(newKey(t).PublicKey()))
		if err := other.Verify(sums, sig); err == nil || !strings.Contains(err.Error(), "key that is not allowed (SHA256:") {
			t.Errorf("%s: another key: %v", name, err)
		}
	}
	for name, c := range map[string]struct {
		sig  []byte
		want string
	}{
		"another namespace": {file(t, "file.sig"), "another namespace"},
		"no signature":      {nil, "not one of 'ssh-keygen"},
		"large":             {make([]byte, MaxSignature+1), "larger"},
		"a certificate":     {[]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), "not one of"},
		"cut":               {file(t, "ed25519.sig")[:200], "not one of"},
	} {
		if err := all.Verify(sums, c.sig); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestVerifySHA1 checks that a signature of an RSA key with SHA-1, which x/crypto/ssh accepts, is refused.
func TestVerifySHA1(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, minRSA)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	message := []byte("# serial 1\n")
	sig, err := sshsig.Sign(bytes.NewReader(message), signer, sshsig.HashSHA256, Namespace)
	if err != nil {
		t.Fatal(err)
	}
	allowed := signers(t, line(signer.PublicKey()))
	if err := allowed.Verify(message, sshsig.Armor(sig)); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{ssh.KeyAlgoRSA, ssh.KeyAlgoED25519, "", "none"} {
		sig.Signature.Format = format
		if err := allowed.Verify(message, sshsig.Armor(sig)); err == nil || !strings.Contains(err.Error(), "SHA-1") {
			t.Errorf("format %q: %v", format, err)
		}
	}
}

func TestParseSigners(t *testing.T) {
	key := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(newKey(t).PublicKey())))
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Skip("this Go version generates no small keys")
	}
	smallKey, err := ssh.NewPublicKey(&small.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text string
		keys int
		want string // a part of the error
	}{
		"a key":                 {"a@b " + key, 1, ""},
		"a comment":             {"# x\n\n  a@b " + key + " the key of 2026\r\n", 1, ""},
		"two keys":              {"a@b " + key + "\nc@d namespaces=\"git,podrun\" " + key + "\n", 2, ""},
		"another namespace":     {"a@b namespaces=\"git\" " + key + "\nc@d " + key, 1, ""},
		"only other namespaces": {"a@b namespaces=\"git\" " + key, 0, "no key"},
		"empty":                 {"", 0, "no key"},
		"all namespaces":        {"a@b namespaces=\"*\" " + key, 0, "patterns"},
		"a negated namespace":   {"a@b namespaces=\"!git\" " + key, 0, "patterns"},
		"valid-before":          {"a@b valid-before=\"20300101\" " + key, 0, "valid-before"},
		"valid-after":           {"a@b valid-after=\"20300101\" " + key, 0, "clock"},
		"two options":           {"a@b namespaces=\"podrun\",valid-before=\"20300101\" " + key, 0, "only the option"},
		"an authority":          {"a@b cert-authority " + key, 0, "neither an option"},
		"an unknown option":     {"a@b later=\"x\" " + key, 0, "only the option"},
		"an open quote":         {"a@b namespaces=\"podrun " + key, 0, "only the option"},
		"quoted principals":     {"\"a b\" " + key, 0, "quotes"},
		"no principal":          {key, 0, "not a line"},
		"DSA":                   {"a@b ssh-dss AAAA", 0, "neither an option"},
		"a certificate":         {"a@b ssh-ed25519-cert-v01@openssh.com AAAA", 0, "neither an option"},
		"another type":          {"a@b ssh-rsa " + strings.Fields(key)[1], 0, "not a key of the type"},
		"no base64":             {"a@b ssh-ed25519 %%", 0, "base64"},
		"no key":                {"a@b ssh-ed25519", 0, "not a line"},
		"a short RSA key":       {"a@b ssh-rsa " + base64.StdEncoding.EncodeToString(smallKey.Marshal()), 0, "2048"},
		"too many":              {strings.Repeat("a@b "+key+"\n", maxKeys+1), 0, "more than 64"},
		"too large":             {strings.Repeat("#", MaxSigners+1), 0, "larger"},
		"the second is invalid": {"a@b " + key + "\nx\n", 0, "line 2"},
	} {
		got, err := ParseSigners([]byte(c.text))
		if len(got) != c.keys || (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %d keys, %v", name, len(got), err)
		}
	}
}

func TestParseSums(t *testing.T) {
	sum := strings.Repeat("0a", sha256.Size)
	good, err := ParseSums([]byte("# serial 12\n# source /etc/pods\n" + sum + "  web.yaml\n" + sum + " *a b.yaml\n"))
	if err != nil || good.Serial != 12 || good.Source != "/etc/pods" || len(good.Files) != 2 || good.Files["a b.yaml"][0] != 10 {
		t.Errorf("%+v, %v", good, err)
	}
	if empty, err := ParseSums([]byte("# serial 1\n")); err != nil || len(empty.Files) != 0 {
		t.Errorf("no files: %+v, %v", empty, err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"no serial":         {sum + "  web.yaml\n", "first line"},
		"zero":              {"# serial 0\n", "first line"},
		"leading zero":      {"# serial 07\n", "first line"},
		"a sign":            {"# serial +7\n", "first line"},
		"too high":          {"# serial 9223372036854775808\n", "first line"},
		"words":             {"# serial 7 8\n", "first line"},
		"no end":            {"# serial 7\n" + sum + "  web.yaml", "no end"},
		"empty":             {"", "no end"},
		"an empty line":     {"# serial 7\n\n", "line 2"},
		"a later source":    {"# serial 7\n" + sum + "  web.yaml\n# source x\n", "line 3"},
		"an empty source":   {"# serial 7\n# source \n", "empty"},
		"a parent":          {"# serial 7\n" + sum + "  ../web.yaml\n", "same directory"},
		"an absolute path":  {"# serial 7\n" + sum + "  /web.yaml\n", "same directory"},
		"a subdirectory":    {"# serial 7\n" + sum + "  a/web.yaml\n", "same directory"},
		"dots":              {"# serial 7\n" + sum + "  ..\n", "same directory"},
		"an escaped name":   {"# serial 7\n\\" + sum + "  a\\nb.yaml\n", "not a line"},
		"a backslash":       {"# serial 7\n" + sum + "  a\\b.yaml\n", "same directory"},
		"a carriage return": {"# serial 7\n" + sum + "  web.yaml\r\n", "same directory"},
		"a long name":       {"# serial 7\n" + sum + "  " + strings.Repeat("a", 256) + "\n", "same directory"},
		"not UTF-8":         {"# serial 7\n" + sum + "  a\xff.yaml\n", "same directory"},
		"upper case":        {"# serial 7\n" + strings.ToUpper(sum) + "  a\n", "not a line"},
		"no digest":         {"# serial 7\n" + strings.Repeat("z", 64) + "  a\n", "not a line"},
		"another digest":    {"# serial 7\n" + sum + "00  a\n", "not a line"},
		"twice":             {"# serial 7\n" + sum + "  a\n" + sum + "  a\n", "line 3: the file is listed twice"},
		"too large":         {"# serial 7\n" + strings.Repeat("\n", MaxSums), "larger"},
	} {
		if got, err := ParseSums([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) || got.Files != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestCheck(t *testing.T) {
	digest := sha256.Sum256([]byte("kind: Pod\n"))
	s, err := ParseSums(file(t, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check("web.yaml", digest); err != nil {
		t.Error(err)
	}
	if err := s.Check("db.yaml", digest); err == nil {
		t.Error("accepted a file that is not listed")
	}
	if err := s.Check("web.yaml", [32]byte{}); err == nil {
		t.Error("accepted other content")
	}
}

// FuzzSums checks that an accepted list has a serial and names of files, and that each of its lines is a file.
func FuzzSums(f *testing.F) {
	f.Add(file(f, "SHA256SUMS"))
	f.Add([]byte("# serial 1\n# source x\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ParseSums(data)
		if err != nil {
			return
		}
		lines := bytes.Count(data, []byte("\n")) - 1
		if s.Source != "" {
			lines--
		}
		if s.Serial == 0 || len(s.Files) != lines {
			t.Errorf("serial %d, %d files in %d lines", s.Serial, len(s.Files), lines)
		}
		for name := range s.Files {
			if !IsFileName(name) || strings.ContainsAny(name, "/\n\\") {
				t.Errorf("the name %q", name)
			}
		}
	})
}

// FuzzVerify checks that no changed signature or list is accepted, and that no input makes Verify panic.
func FuzzVerify(f *testing.F) {
	all, sums := signers(f, string(file(f, "allowed_signers"))), file(f, "SHA256SUMS")
	for _, name := range []string{"ed25519.sig", "ecdsa.sig", "rsa.sig", "file.sig"} {
		f.Add(sums, file(f, name))
	}
	f.Fuzz(func(t *testing.T, message, armored []byte) {
		if err := all.Verify(message, armored); err == nil && !bytes.Equal(message, sums) {
			t.Errorf("accepted %q", message)
		}
	})
}

// FuzzSigners checks that a file with keys is parsed without a panic, and that an accepted one has keys.
func FuzzSigners(f *testing.F) {
	f.Add(file(f, "allowed_signers"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := ParseSigners(data); err == nil && (len(s) == 0 || len(s) > maxKeys) {
			t.Errorf("%d keys", len(s))
		}
	})
}

package source

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"github.com/podrun/podrun/serve/source/signature"
	"github.com/podrun/podrun/test/ring"
)

// signer is a key that signs lists of files.
type signer struct {
	t   testing.TB
	key ssh.Signer
}

// newSigner returns a key; the same number results in the same key.
func newSigner(t testing.TB, number byte) signer {
	t.Helper()
	key, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{number}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	return signer{t, key}
}

func (s signer) allowed() string {
	return "release@example.com " + string(ssh.MarshalAuthorizedKey(s.key.PublicKey()))
}

// sums returns a list of files with its signature. head is the lines before the files.
func (s signer) sums(head string, files map[string]string) (list, sig []byte) {
	s.t.Helper()
	text := head
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text += fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(files[name])), name)
	}
	signed, err := sshsig.Sign(strings.NewReader(text), s.key, sshsig.HashSHA512, signature.Namespace)
	if err != nil {
		s.t.Fatal(err)
	}
	return []byte(text), sshsig.Armor(signed)
}

// records are the records of accepted content, which survive a process.
type records struct {
	sync.Mutex
	of   map[string]Accepted
	full bool // simulates a full disk
}

func (r *records) verification(signers string) *Verification {
	return &Verification{Signers: signers,
		ReadAccepted: func(source string) (Accepted, error) {
			r.Lock()
			defer r.Unlock()
			return r.of[source], nil
		},
		WriteAccepted: func(source string, a Accepted) error {
			r.Lock()
			defer r.Unlock()
			if r.full {
				return errors.New("no space left on device")
			}
			r.of[source] = a
			return nil
		}}
}

// signedDir is a signed manifest directory.
type signedDir struct {
	t       *testing.T
	dir     string
	signers string
	records *records
	reader  *Reader
}

func newSignedDir(t *testing.T, allowed string) *signedDir {
	t.Helper()
	ring.RequireRoot(t) // the owner of the file with the keys must be root
	d := &signedDir{t: t, dir: t.TempDir(), signers: filepath.Join(t.TempDir(), "allowed_signers"), records: &records{of: map[string]Accepted{}}}
	write(t, d.signers, allowed)
	d.boot()
	return d
}

// boot starts a new process.
func (d *signedDir) boot() {
	d.reader = readerOf(d.t, Options{Dirs: []string{d.dir}, Settle: settleTime, Verification: d.records.verification(d.signers)})
}

// put writes the files and their signed list, which replace those of before.
func (d *signedDir) put(s signer, head string, files map[string]string) {
	d.t.Helper()
	d.clear()
	for name, text := range files {
		write(d.t, filepath.Join(d.dir, name), text)
	}
	d.sign(s, head, files)
}

func (d *signedDir) sign(s signer, head string, files map[string]string) {
	d.t.Helper()
	list, sig := s.sums(head, files)
	write(d.t, filepath.Join(d.dir, sumsFile), string(list))
	write(d.t, filepath.Join(d.dir, sumsFile+signatureSuffix), string(sig))
}

func (d *signedDir) clear() {
	d.t.Helper()
	old, err := filepath.Glob(filepath.Join(d.dir, "*"))
	if err != nil {
		d.t.Fatal(err)
	}
	for _, path := range old {
		do(d.t, os.Remove(path))
	}
}

// want reads the directory, and checks its pods, its state and what was reported.
func (d *signedDir) want(state DirState, reason string, names ...string) {
	d.t.Helper()
	s, text := settled(d.t, d.reader)
	var have []string
	for _, p := range Merge(s).Pods {
		have = append(have, p.Object.Name)
	}
	if !slices.Equal(have, names) || s.Dirs[0].State != state || !strings.Contains(s.Dirs[0].Why, reason) {
		d.t.Errorf("%v, %s: %q; want %v, %s: %q", have, s.Dirs[0].State, s.Dirs[0].Why, names, state, reason)
	}
	if state == Unverified && !strings.Contains(text, reason) {
		d.t.Errorf("reported %q, want %q", text, reason)
	}
	if may, _ := s.MayDefine(filepath.Join(d.dir, "gone.yaml")); may != (state != Present) {
		d.t.Errorf("%s: a pod without a file may be defined: %v", state, may)
	}
}

// TestSignedDirectory attacks a directory in each way, and checks that its last content stays in effect, also after
// a restart of podrun, and that correct content is then taken.
func TestSignedDirectory(t *testing.T) {
	ours, theirs := newSigner(t, 1), newSigner(t, 2)
	first := map[string]string{"web.yaml": podText("web"), "db.yaml": podText("db")}
	next := map[string]string{"web.yaml": podText("web2"), "db.yaml": podText("db2")}
	for name, c := range map[string]struct {
		attack func(d *signedDir)
		reason string
	}{
		"another key":     {func(d *signedDir) { d.put(theirs, "# serial 9\n", next) }, "a key that is not allowed"},
		"no list":         {func(d *signedDir) { do(t, os.Remove(filepath.Join(d.dir, sumsFile))) }, "SHA256SUMS: no such file"},
		"no signature":    {func(d *signedDir) { do(t, os.Remove(filepath.Join(d.dir, sumsFile+signatureSuffix))) }, "SHA256SUMS.sig: no such file"},
		"an emptied list": {func(d *signedDir) { write(t, filepath.Join(d.dir, sumsFile), "# serial 9\n") }, "does not match"},
		"a large list":    {func(d *signedDir) { write(t, filepath.Join(d.dir, sumsFile), strings.Repeat("#", signature.MaxSums+1)) }, "larger"},
		"an older serial": {func(d *signedDir) { d.put(ours, "# serial 6\n", next) }, "the serial 6 is below that of the last content, 7"},
		"the same serial": {func(d *signedDir) { d.put(ours, "# serial 7\n", next) }, "already used"},
		"no serial":       {func(d *signedDir) { d.put(ours, "", next) }, "first line"},
		"another source":  {func(d *signedDir) { d.put(ours, "# serial 8\n# source /etc/other\n", next) }, "another source"},
		"a changed file":  {func(d *signedDir) { write(t, filepath.Join(d.dir, "web.yaml"), podText("evil")) }, "web.yaml: its content differs"},
		"a removed file":  {func(d *signedDir) { do(t, os.Remove(filepath.Join(d.dir, "web.yaml"))) }, "web.yaml is missing"},
		"files were swapped": {func(d *signedDir) {
			do(t, os.Rename(filepath.Join(d.dir, "web.yaml"), filepath.Join(d.dir, "db.yaml")))
		}, "db.yaml: its content differs"},
		"a link instead": {func(d *signedDir) {
			p := filepath.Join(d.dir, "web.yaml")
			do(t, os.Remove(p), os.Symlink("/dev/null", p))
		}, "web.yaml: "},
		"half of an update": {func(d *signedDir) {
			d.sign(ours, "# serial 8\n", next)
			write(t, filepath.Join(d.dir, "web.yaml"), next["web.yaml"])
		}, "db.yaml: its content differs"},
		"an emptied directory": {func(d *signedDir) { d.clear() }, "no such file"},
		"unknown option":       {func(d *signedDir) { write(t, d.signers, "a@b valid-before=\"20300101\" ssh-ed25519 x\n") }, "clock"},
		"no keys":              {func(d *signedDir) { write(t, d.signers, "") }, "no key"},
		"keys of another user": {func(d *signedDir) { do(t, os.Chown(d.signers, 1234, 0)) }, "refused, because user 1234 owns it"},
		"keys of every user":   {func(d *signedDir) { do(t, os.Chmod(d.signers, 0o666)) }, "every user can write"},
		"keys of a user":       {func(d *signedDir) { do(t, os.Chown(d.signers, 1234, 0)) }, "user 1234"},
		"keys are a directory": {func(d *signedDir) { do(t, os.Remove(d.signers), os.Mkdir(d.signers, 0o755)) }, "regular file"},
		"no room for serial":   {func(d *signedDir) { d.records.full = true; d.put(ours, "# serial 8\n", next) }, "no space left"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newSignedDir(t, ours.allowed())
			d.put(ours, "# serial 7\n", first)
			d.want(Present, "", "db", "web")
			c.attack(d)
			d.want(Unverified, c.reason, "db", "web")
			d.boot()
			d.want(Unverified, c.reason)

			do(t, os.RemoveAll(d.signers))
			write(t, d.signers, ours.allowed())
			d.records.full = false
			d.put(ours, "# serial 10\n", next)
			d.want(Present, "", "db2", "web2")
		})
	}
}

// TestSignedDirectoryUnlisted checks that a file that is not listed is reported and has no effect, and that a
// list removes a file.
func TestSignedDirectoryUnlisted(t *testing.T) {
	ours := newSigner(t, 1)
	d := newSignedDir(t, ours.allowed())
	files := map[string]string{"web.yaml": podText("web"), "db.yaml": podText("db"), "README": "x"}
	d.put(ours, "# serial 7\n", files)
	write(t, filepath.Join(d.dir, "evil.yaml"), podText("evil"))
	s, text := settled(t, d.reader)
	if got := pods(s); strings.Contains(got, "evil") || strings.Count(got, "=") != 2 || !slices.Equal(s.Dirs[0].Unsigned, []string{"evil.yaml"}) || !strings.Contains(text, "evil.yaml") {
		t.Errorf("pods %q, unsigned %v, reported %q", got, s.Dirs[0].Unsigned, text)
	}
	if again := read(t, d.reader); len(again.News) > 0 {
		t.Errorf("reported again: %v", again.News)
	}
	delete(files, "web.yaml")
	d.sign(ours, "# serial 8\n", files)
	d.want(Present, "", "db")
	d.clear()
	d.sign(ours, "# serial 9\n", nil)
	d.want(Present, "")
}

// TestSignedDirectoryKeys replaces the key in three steps, without a change of the content.
func TestSignedDirectoryKeys(t *testing.T) {
	old, next := newSigner(t, 1), newSigner(t, 2)
	d := newSignedDir(t, old.allowed())
	files := map[string]string{"web.yaml": podText("web")}
	d.put(old, "# serial 7\n", files)
	d.want(Present, "", "web")
	d.sign(next, "# serial 7\n", files)
	d.want(Unverified, "not allowed", "web")
	write(t, d.signers, old.allowed()+next.allowed())
	d.want(Present, "", "web")
	write(t, d.signers, next.allowed())
	d.boot()
	d.want(Present, "", "web")
	d.sign(old, "# serial 8\n", files)
	d.want(Unverified, "not allowed", "web")
}

// TestSignedFile checks the list of a source that is a single file.
func TestSignedFile(t *testing.T) {
	ours := newSigner(t, 1)
	d := newSignedDir(t, ours.allowed())
	path := filepath.Join(d.dir, "web.yaml")
	d.reader = readerOf(t, Options{Dirs: []string{path}, Settle: settleTime, Verification: d.records.verification(d.signers)})
	write(t, path, podText("web"))
	list, sig := ours.sums("# serial 1\n# source "+path+"\n", map[string]string{"web.yaml": podText("web")})
	d.want(Unverified, "web.yaml.sums: no such file")
	write(t, path+sumsSuffix, string(list))
	write(t, path+sumsSuffix+signatureSuffix, string(sig))
	if s, _ := settled(t, d.reader); !strings.Contains(pods(s), "web") {
		t.Errorf("pods %q, %v", pods(s), s.Problems())
	}
}

// signedSite is a site with signed content.
type signedSite struct {
	*site
	signers string
	records *records
	files   map[string]string // by name
	asked   map[string]int
}

func newSignedSite(t *testing.T, allowed string) *signedSite {
	t.Helper()
	ring.RequireRoot(t)
	s := &signedSite{site: newSite(t), signers: filepath.Join(t.TempDir(), "allowed_signers"), records: &records{of: map[string]Accepted{}}, files: map[string]string{}, asked: map[string]int{}}
	write(t, s.signers, allowed)
	s.verification = s.records.verification(s.signers)
	s.does(func(w http.ResponseWriter, r *http.Request) {
		name := path.Base(r.URL.Path)
		s.asked[name]++
		text, ok := s.files[name]
		if !ok || r.URL.RawQuery != "token=s3cret" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(text))
	})
	return s
}

func (s *signedSite) put(by signer, head, text string) {
	list, sig := by.sums(head, map[string]string{"pods.yaml": text})
	s.files = map[string]string{"pods.yaml": text, "pods.yaml.sums": string(list), "pods.yaml.sums.sig": string(sig)}
}

// TestSignedURL attacks a URL in each way, as TestSignedDirectory does for a directory.
func TestSignedURL(t *testing.T) {
	ours, theirs := newSigner(t, 1), newSigner(t, 2)
	for name, c := range map[string]struct {
		attack func(s *signedSite)
		state  DirState
		reason string
	}{
		"another key": {func(s *signedSite) { s.put(theirs, "# serial 9\n", podText("evil")) }, Unverified, "not allowed"},
		"other content": {func(s *signedSite) {
			s.put(ours, "# serial 8\n", podText("web2"))
			s.files["pods.yaml"] = podText("evil")
		}, Unverified, "pods.yaml: its content differs"},
		"an older serial": {func(s *signedSite) { s.put(ours, "# serial 6\n", podText("old")) }, Unverified, "below"},
		"the same serial": {func(s *signedSite) { s.put(ours, "# serial 7\n", podText("other")) }, Unverified, "already used"},
		"another source": {func(s *signedSite) {
			s.put(ours, "# serial 8\n# source https://other.example/pods.yaml\n", podText("other"))
		}, Unverified, "another source"},
		"no list":      {func(s *signedSite) { delete(s.files, "pods.yaml.sums") }, Unreachable, "pods.yaml.sums: the server returned 404"},
		"no signature": {func(s *signedSite) { delete(s.files, "pods.yaml.sums.sig") }, Unreachable, "pods.yaml.sums.sig: the server returned 404"},
		"a large list": {func(s *signedSite) { s.files["pods.yaml.sums"] = strings.Repeat("#", signature.MaxSums+1) }, Unreachable, "larger"},
		"not listed": {func(s *signedSite) {
			list, sig := ours.sums("# serial 8\n", map[string]string{"other.yaml": podText("web2")})
			s.put(ours, "# serial 8\n", podText("web2"))
			s.files["pods.yaml.sums"], s.files["pods.yaml.sums.sig"] = string(list), string(sig)
		}, Unverified, "pods.yaml: it is not listed"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSignedSite(t, ours.allowed())
			s.put(ours, "# serial 7\n", podText("web"))
			remotes, reader := s.process()
			wantPods(t, s.pass(remotes, reader), s.url(), true, "web")
			c.attack(s)
			check := func() {
				t.Helper()
				snapshot := s.pass(remotes, reader)
				wantPods(t, snapshot, s.url(), false, "web")
				if d := snapshot.Dirs[0]; d.State != c.state || !strings.Contains(d.Why, c.reason) || strings.Contains(d.Why, "s3cret") {
					t.Errorf("%s: %s, want %s: %s", d.State, d.Why, c.state, c.reason)
				}
			}
			check()
			remotes, reader = s.process() // its copy has the last content
			check()
			s.put(ours, "# serial 10\n", podText("web3"))
			wantPods(t, s.pass(remotes, reader), s.url(), true, "web3")
		})
	}
}

// TestSignedURLCopy checks when podrun uses the copy of a URL without a network.
func TestSignedURLCopy(t *testing.T) {
	ours, next := newSigner(t, 1), newSigner(t, 2)
	s := newSignedSite(t, ours.allowed())
	offline := func(want ...string) *Snapshot {
		t.Helper()
		_, reader := s.process()
		snapshot := s.look(reader)
		wantPods(t, snapshot, s.url(), false, want...)
		return snapshot
	}
	s.put(ours, "# serial 7\n", podText("web"))
	s.verification = nil // an earlier process did not verify
	remotes, reader := s.process()
	s.pass(remotes, reader)
	offline("web")
	s.verification = s.records.verification(s.signers)
	if d := offline().Dirs[0]; d.State != Unverified || !strings.Contains(d.Why, "stored without --source-verify") {
		t.Errorf("%s: %s", d.State, d.Why)
	}
	remotes, reader = s.process()
	s.pass(remotes, reader)
	offline("web")

	// The content is signed again with another key. It must not be read again.
	write(t, s.signers, ours.allowed()+next.allowed())
	s.put(next, "# serial 7\n", podText("web"))
	read := s.asked["pods.yaml"]
	wantPods(t, s.pass(remotes, reader), s.url(), true, "web")
	if s.asked["pods.yaml"] != read {
		t.Error("podrun read the content again although it has not changed")
	}
	write(t, s.signers, next.allowed())
	offline("web")

	// Valid manifests stay in the copy if the next content is not valid.
	s.put(next, "# serial 8\n", "kind: Pod\n")
	snapshot := s.pass(remotes, reader)
	wantPods(t, snapshot, s.url(), true, "web")
	if s.records.of[s.url()].Serial != 8 {
		t.Errorf("serial %d", s.records.of[s.url()].Serial)
	}
	offline("web")
	write(t, s.signers, ours.allowed())
	offline()
}

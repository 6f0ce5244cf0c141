package source

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/test/ring"
)

// depot is a registry with one artifact.
type depot struct {
	t        *testing.T
	server   *httptest.Server
	handler  http.Handler                                      // the registry
	before   func(w http.ResponseWriter, r *http.Request) bool // answers a request; false to ask the registry
	requests []string
	kept     *copies
	options  RemoteOptions
	reader   *Reader
	remotes  *Remotes
}

func newDepot(t *testing.T, o RemoteOptions) *depot {
	t.Helper()
	d := &depot{t: t, handler: registry.New(registry.Logger(log.New(io.Discard, "", 0))), kept: &copies{files: map[string][]byte{}}, options: o}
	d.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.requests = append(d.requests, r.Method+" "+r.URL.Path)
		if d.before == nil || !d.before(w, r) {
			d.handler.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(d.server.Close)
	d.boot()
	return d
}

func (d *depot) host() string { return strings.TrimPrefix(d.server.URL, "https://") }
func (d *depot) url() string  { return "oci://" + d.host() + "/site/pods:prod" }

// boot starts a new process.
func (d *depot) boot() {
	d.t.Helper()
	o := d.options
	o.URLs, o.ReadCopy, o.WriteCopy = []string{d.url()}, d.kept.read, d.kept.write
	o.Trust = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: d.server.Certificate().Raw})
	var err error
	if d.remotes, err = NewRemotes(d.t.Context(), o); err == nil {
		d.reader, err = NewReader(Options{Dirs: []string{d.url()}, Remotes: d.remotes, Manifest: manifest.Options{}})
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *depot) pass() *Snapshot {
	d.t.Helper()
	d.remotes.poll(d.t.Context(), d.url())
	s, err := d.reader.Read(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	return s
}

// layer is a layer of an artifact.
type layer struct {
	mediaType, title string
	content          []byte
}

const fluxLayer = "application/vnd.cncf.flux.content.v1.tar+gzip"

// push pushes an artifact as Flux does.
func (d *depot) push(files map[string]string) {
	d.pushLayers(layer{fluxLayer, "", archived(d.t, files)})
}

func (d *depot) pushLayers(layers ...layer) {
	d.t.Helper()
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	img = mutate.ConfigMediaType(img, "application/vnd.cncf.flux.config.v1+json")
	for _, l := range layers {
		a := mutate.Addendum{Layer: static.NewLayer(l.content, types.MediaType(l.mediaType)), MediaType: types.MediaType(l.mediaType)}
		if l.title != "" {
			a.Annotations = map[string]string{"org.opencontainers.image.title": l.title}
		}
		var err error
		if img, err = mutate.Append(img, a); err != nil {
			d.t.Fatal(err)
		}
	}
	d.write(img)
}

func (d *depot) write(img v1.Image) {
	d.t.Helper()
	handler, before := d.handler, d.before
	plain := httptest.NewServer(handler)
	defer plain.Close()
	d.before = before
	ref, err := name.NewTag(strings.TrimPrefix(plain.URL, "http://") + "/site/pods:prod")
	if err == nil {
		err = remote.Write(ref, img)
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

func archived(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var headers []*tar.Header
	for _, name := range slices.Sorted(maps.Keys(files)) {
		headers = append(headers, &tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(files[name])), Mode: 0o644})
	}
	return archiveOf(t, files, headers...)
}

func archiveOf(t testing.TB, files map[string]string, headers ...*tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, h := range headers {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(files[h.Name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestArtifact(t *testing.T) {
	d := newDepot(t, RemoteOptions{})
	d.push(map[string]string{"web.yaml": podText("web"), "db.yml": podText("db"), "README.md": "x", "sub/notes.txt": "y"})
	wantPods(t, d.pass(), d.url(), true, "db", "web")
	d.requests = nil
	wantPods(t, d.pass(), d.url(), true, "db", "web")
	if len(d.requests) != 1 || !strings.HasPrefix(d.requests[0], "HEAD ") {
		t.Errorf("an artifact that has not changed is requested with %v", d.requests)
	}
	d.push(map[string]string{"web.yaml": podText("web"), "bad.yaml": "kind: Pod\n"})
	s := d.pass()
	wantPods(t, s, d.url(), true, "db", "web")
	if text := fmt.Sprint(s.Problems()); !strings.Contains(text, "site/pods:prod/bad.yaml") {
		t.Errorf("problems %s", text)
	}
	// Without the registry, a process uses the last valid content.
	d.server.CloseClientConnections()
	d.before = func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(503); return true }
	d.boot()
	wantPods(t, d.pass(), d.url(), false, "db", "web")
	d.before = nil
	d.pushLayers(layer{"application/yaml", "web.yaml", []byte(podText("web2"))}, layer{"text/plain", "README", []byte("x")})
	wantPods(t, d.pass(), d.url(), true, "web2")
	d.push(map[string]string{"none.yaml": "{apiVersion: v1, kind: List, items: []}\n"})
	wantPods(t, d.pass(), d.url(), true)
}

// TestArtifactRefused checks that the last content stays in effect, whatever the artifact is.
func TestArtifactRefused(t *testing.T) {
	file := func(name string, size int64) *tar.Header {
		return &tar.Header{Name: name, Typeflag: tar.TypeReg, Size: size}
	}
	yaml := podText("evil")
	of := func(headers ...*tar.Header) []byte {
		files := map[string]string{}
		for _, h := range headers {
			if h.Typeflag == tar.TypeReg {
				files[h.Name], h.Size = yaml, int64(len(yaml))
			}
		}
		return archiveOf(t, files, headers...)
	}
	good := of(file("web.yaml", 0))
	var many []*tar.Header
	for i := range maxArtifactEntries + 1 {
		many = append(many, file(fmt.Sprint("f", i), 0))
	}
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	w := tar.NewWriter(z)
	_ = w.WriteHeader(file("x.txt", 1<<30))
	_, _ = io.CopyN(w, zeros{}, maxUnpacked+1)
	_ = z.Close()
	flux := func(content []byte) []layer { return []layer{{fluxLayer, "", content}} }
	for name, c := range map[string]struct {
		layers []layer
		want   string
	}{
		"a parent":             {flux(of(file("../web.yaml", 0))), "the path"},
		"a hidden parent":      {flux(of(file("a/../../web.yaml", 0))), "the path"},
		"an absolute path":     {flux(of(file("/etc/web.yaml", 0))), "the path"},
		"a symbolic link":      {flux(of(&tar.Header{Name: "web.yaml", Typeflag: tar.TypeSymlink, Linkname: "/etc/shadow"})), "a link or a device"},
		"a hard link":          {flux(of(&tar.Header{Name: "web.yaml", Typeflag: tar.TypeLink, Linkname: "/etc/shadow"})), "a link or a device"},
		"a device":             {flux(of(&tar.Header{Name: "web.yaml", Typeflag: tar.TypeChar})), "a link or a device"},
		"a subdirectory":       {flux(of(&tar.Header{Name: "a/", Typeflag: tar.TypeDir}, file("a/web.yaml", 0))), "in a subdirectory"},
		"twice":                {flux(of(file("web.yaml", 0), file("./web.yaml", 0))), "exists twice"},
		"control characters":   {flux(of(file("a\x1b[2J.yaml", 0))), "not the name of a file"},
		"many entries":         {flux(of(many...)), "more than 1000 entries"},
		"large when unpacked":  {flux(bomb.Bytes()), "larger than the limit"},
		"a large manifest":     {flux(archived(t, map[string]string{"web.yaml": strings.Repeat("#\n", maxArtifactFiles/2+1)})), "larger than the limit"},
		"cut":                  {flux(good[:len(good)-8]), "the archive"},
		"more data":            {flux(append(slices.Clone(good), "more"...)), "data after its end"},
		"two streams":          {flux(append(slices.Clone(good), good...)), "data after its end"},
		"no gzip":              {flux([]byte(yaml)), "the archive"},
		"no layers":            {nil, "no layers"},
		"many layers":          {slices.Repeat(flux(good), maxLayers+1), "more than 64 layers"},
		"a layer of an image":  {[]layer{{"application/vnd.oci.image.layer.v1.tar", "", []byte("x")}}, "neither an archive"},
		"a title with a slash": {[]layer{{"text/yaml", "../web.yaml", []byte(yaml)}}, "not the name of a file"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDepot(t, RemoteOptions{})
			d.push(map[string]string{"web.yaml": podText("web")})
			wantPods(t, d.pass(), d.url(), true, "web")
			d.pushLayers(c.layers...)
			s := d.pass()
			wantPods(t, s, d.url(), false, "web")
			if !strings.Contains(s.Dirs[0].Why, c.want) {
				t.Errorf("%q, want %q", s.Dirs[0].Why, c.want)
			}
			d.notFetchedAgain(s.Dirs[0].Why)
		})
	}
}

// notFetchedAgain checks that a refused artifact is requested only for its digest, and is refused for the same reason.
func (d *depot) notFetchedAgain(why string) {
	d.t.Helper()
	d.requests = nil
	if got := d.pass().Dirs[0].Why; got != why {
		d.t.Errorf("%q, then %q", why, got)
	}
	if len(d.requests) != 1 || !strings.HasPrefix(d.requests[0], "HEAD ") {
		d.t.Errorf("a refused artifact is requested again with %v", d.requests)
	}
}

// zeros is an endless stream.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestArtifactHostileRegistry checks a registry that does not serve what it announces.
func TestArtifactHostileRegistry(t *testing.T) {
	blob := func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/")
	}
	get := func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/manifests/")
	}
	text := func(w http.ResponseWriter, s string) bool { _, _ = io.WriteString(w, s); return true }
	for name, c := range map[string]struct {
		before func(w http.ResponseWriter, r *http.Request) bool
		want   string
	}{
		"other content": {func(w http.ResponseWriter, r *http.Request) bool { return blob(r) && text(w, podText("evil")) }, ""},
		"endless content": {func(w http.ResponseWriter, r *http.Request) bool {
			n, _ := io.CopyN(w, zeros{}, map[bool]int64{true: 64 << 20}[blob(r)])
			return n > 0
		}, ""},
		"other manifest": {func(w http.ResponseWriter, r *http.Request) bool { return get(r) && text(w, `{"layers":[]}`) }, ""},
		"not found":      {func(w http.ResponseWriter, r *http.Request) bool { w.WriteHeader(404); return text(w, "s3cret") }, "not found"},
		"a web page": {func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Type", "text/html")
			return text(w, "<html>")
		}, ""},
		"redirect to http": {func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "http://127.0.0.1:1/x?s3cret", http.StatusTemporaryRedirect)
			return true
		}, "not https"},
		"realm with http": {func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://127.0.0.1:1/token?s3cret",service="x"`)
			w.WriteHeader(401)
			return true
		}, ""},
		"realm in the host's metadata": {func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("WWW-Authenticate", `Bearer realm="https://169.254.169.254/token",service="x"`)
			w.WriteHeader(401)
			return true
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDepot(t, RemoteOptions{})
			d.push(map[string]string{"web.yaml": podText("web")})
			wantPods(t, d.pass(), d.url(), true, "web")
			d.push(map[string]string{"web.yaml": podText("web2")})
			d.before = c.before
			s := d.pass()
			wantPods(t, s, d.url(), false, "web")
			if why := s.Dirs[0].Why; why == "" || !strings.Contains(why, c.want) || strings.Contains(why, "s3cret") {
				t.Errorf("%q, want %q", why, c.want)
			}
		})
	}
}

// TestArtifactCredentials checks which server gets which header.
func TestArtifactCredentials(t *testing.T) {
	user := "Basic " + base64.StdEncoding.EncodeToString([]byte("robot:pass"))
	headers := filepath.Join(t.TempDir(), "headers")
	write(t, headers, "Authorization: "+user+"\nX-Site: s1\n")
	d := newDepot(t, RemoteOptions{HeaderFile: headers})
	d.push(map[string]string{"web.yaml": podText("web")})
	elsewhere := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" || r.Header.Get("X-Site") != "" {
			t.Errorf("the headers were sent to another host: %v", r.Header)
		}
		d.handler.ServeHTTP(w, r)
	}))
	elsewhere.TLS = d.server.TLS
	elsewhere.StartTLS()
	defer elsewhere.Close()
	d.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("X-Site") != "s1" {
			t.Errorf("%s: no header", r.URL.Path)
		}
		switch {
		case r.URL.Path == "/token":
			if r.Header.Get("Authorization") != user {
				t.Errorf("the token server got %q", r.Header.Get("Authorization"))
			}
			_, _ = io.WriteString(w, `{"token":"t0ken"}`)
		case r.Header.Get("Authorization") != "Bearer t0ken":
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+d.server.URL+`/token",service="x"`)
			w.WriteHeader(401)
		case strings.Contains(r.URL.Path, "/blobs/"):
			http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
		default:
			return false
		}
		return true
	}
	wantPods(t, d.pass(), d.url(), true, "web")
	write(t, headers, "Authorization: Digest x\n")
	d.push(map[string]string{"web.yaml": podText("web2")})
	if s := d.pass(); !strings.Contains(s.Dirs[0].Why, "neither Basic nor Bearer") {
		t.Error(s.Dirs[0].Why)
	}
}

// TestSignedArtifact attacks a signed artifact in each way.
func TestSignedArtifact(t *testing.T) {
	ring.RequireRoot(t)
	ours, theirs := newSigner(t, 1), newSigner(t, 2)
	signed := func(by signer, head string, files map[string]string, more map[string]string) map[string]string {
		list, sig := by.sums(head, files)
		out := maps.Clone(files)
		out[sumsFile], out[sumsFile+signatureSuffix] = string(list), string(sig)
		maps.Copy(out, more)
		return out
	}
	evil, next := map[string]string{"web.yaml": podText("evil")}, map[string]string{"web.yaml": podText("web2")}
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"not signed":         {evil, "has no file SHA256SUMS"},
		"no signature":       {map[string]string{"web.yaml": "x", sumsFile: "# serial 9\n"}, "has no file SHA256SUMS.sig"},
		"another key":        {signed(theirs, "# serial 9\n", evil, nil), "not allowed"},
		"other content":      {signed(ours, "# serial 9\n", next, evil), "web.yaml: its content differs"},
		"a further manifest": {signed(ours, "# serial 9\n", next, map[string]string{"evil.yaml": podText("evil")}), "evil.yaml: it is not listed"},
		"an older serial":    {signed(ours, "# serial 6\n", next, nil), "below"},
		"the same serial":    {signed(ours, "# serial 7\n", next, nil), "already used"},
		"another source":     {signed(ours, "# serial 9\n# source oci://x/y:z\n", next, nil), "another source"},
		"a missing manifest": {signed(ours, "# serial 9\n", map[string]string{"web.yaml": podText("web2"), "db.yaml": "x"}, map[string]string{"db.yaml": ""}), "db.yaml: its content differs"},
	} {
		t.Run(name, func(t *testing.T) {
			signers := filepath.Join(t.TempDir(), "allowed_signers")
			write(t, signers, ours.allowed())
			r := &records{of: map[string]Accepted{}}
			d := newDepot(t, RemoteOptions{Verification: r.verification(signers)})
			d.push(signed(ours, "# serial 7\n", map[string]string{"web.yaml": podText("web")}, nil))
			wantPods(t, d.pass(), d.url(), true, "web")
			d.push(c.files)
			check := func(names ...string) {
				t.Helper()
				s := d.pass()
				wantPods(t, s, d.url(), false, names...)
				if s.Dirs[0].State != Unverified || !strings.Contains(s.Dirs[0].Why, c.want) {
					t.Errorf("%s: %q, want %q", s.Dirs[0].State, s.Dirs[0].Why, c.want)
				}
			}
			check("web")
			d.notFetchedAgain(d.pass().Dirs[0].Why)
			d.boot()
			check("web")
			d.push(signed(ours, "# serial 10\n", next, nil))
			wantPods(t, d.pass(), d.url(), true, "web2")
			// The key is removed while the artifact does not change.
			write(t, signers, theirs.allowed())
			c.want = "not allowed"
			check("web2")
			d.boot()
			check()
		})
	}
}

// TestRefusedArtifactIsTaken checks that a refused artifact is read again when its key is allowed, or its record was removed.
// An artifact whose layers could not be fetched is not refused.
func TestRefusedArtifactIsTaken(t *testing.T) {
	ring.RequireRoot(t)
	ours, theirs := newSigner(t, 1), newSigner(t, 2)
	signers := filepath.Join(t.TempDir(), "allowed_signers")
	write(t, signers, ours.allowed())
	r := &records{of: map[string]Accepted{}}
	d := newDepot(t, RemoteOptions{Verification: r.verification(signers)})
	push := func(by signer, head, pod string) {
		files := map[string]string{"web.yaml": podText(pod)}
		list, sig := by.sums(head, files)
		files[sumsFile], files[sumsFile+signatureSuffix] = string(list), string(sig)
		d.push(files)
	}
	push(ours, "# serial 7\n", "web")
	wantPods(t, d.pass(), d.url(), true, "web")
	push(theirs, "# serial 8\n", "web2")
	wantPods(t, d.pass(), d.url(), false, "web")
	write(t, signers, ours.allowed()+theirs.allowed())
	wantPods(t, d.pass(), d.url(), true, "web2")
	push(ours, "# serial 6\n", "web3")
	wantPods(t, d.pass(), d.url(), false, "web2")
	r.of = map[string]Accepted{}
	wantPods(t, d.pass(), d.url(), true, "web3")
	push(ours, "# serial 9\n", "web4")
	d.before = func(w http.ResponseWriter, r *http.Request) bool {
		if blob := strings.Contains(r.URL.Path, "/blobs/"); blob {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	}
	wantPods(t, d.pass(), d.url(), false, "web3")
	d.before = nil
	wantPods(t, d.pass(), d.url(), true, "web4")
}

func TestCheckRemoteArtifact(t *testing.T) {
	for name, ok := range map[string]bool{
		"oci://registry.example/site/pods:prod": true, "oci://127.0.0.1:5000/a@sha256:" + strings.Repeat("0", 64): true,
		"oci://registry.example/site/pods": false, "oci://registry.example": false, "oci://user:pass@registry.example/a:b": false,
		"oci://registry.example/a:b?x=y": false, "oci:///a:b": false, "oci://registry.example/A:b": false, "oci://" + strings.Repeat("a", maxURL) + "/b:c": false,
	} {
		if err := CheckRemote(name); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzUnpack checks that an archive is unpacked within the limits, and that its manifests can be decoded again.
func FuzzUnpack(f *testing.F) {
	f.Add(archived(f, map[string]string{"web.yaml": "kind: Pod\n", "SHA256SUMS": "x", "a/b": "y"}))
	f.Fuzz(func(t *testing.T, data []byte) {
		// The archive is compressed here, because a fuzzer finds no checksums.
		for _, layer := range [][]byte{data, compressed(data)} {
			files := &artifactFiles{}
			if files.unpack(layer) != nil {
				continue
			}
			again, err := decodeArtifact(files.encode())
			if err != nil || files.size > maxArtifactFiles || len(again) > len(files.list) {
				t.Errorf("%d of %d files, %d bytes: %v", len(again), len(files.list), files.size, err)
			}
		}
	})
}

func compressed(data []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(data)
	_ = z.Close()
	return b.Bytes()
}

// FuzzDecodeArtifact checks that a copy is decoded without a panic.
func FuzzDecodeArtifact(f *testing.F) {
	f.Add([]byte("3 a.yaml\nabc0 b.yaml\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		files, err := decodeArtifact(data)
		size := 0
		for _, f := range files {
			size += len(f.data)
		}
		if err == nil && size > len(data) {
			t.Errorf("%d bytes from %d", size, len(data))
		}
	})
}

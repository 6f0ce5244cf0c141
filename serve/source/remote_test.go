package source

import (
	"context"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podrun/podrun/manifest"
)

// copies stores copies in memory.
type copies struct {
	sync.Mutex
	files map[string][]byte
	full  bool // simulates a full disk
}

func (c *copies) read(name string) ([]byte, error) {
	c.Lock()
	defer c.Unlock()
	if data, ok := c.files[name]; ok {
		return data, nil
	}
	return nil, fs.ErrNotExist
}

func (c *copies) write(name string, data []byte) error {
	c.Lock()
	defer c.Unlock()
	if c.full {
		return errors.New("no space left on device")
	}
	c.files[name] = data
	return nil
}

// site is a web server whose response the test sets.
type site struct {
	t       *testing.T
	server  *httptest.Server
	answer  atomic.Pointer[http.HandlerFunc]
	timeout time.Duration // of podrun's requests
	kept    *copies
	header  string

	verification *Verification
}

func newSite(t *testing.T) *site {
	s := &site{t: t, timeout: 20 * time.Second, kept: &copies{files: map[string][]byte{}}}
	s.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*s.answer.Load())(w, r) }))
	t.Cleanup(s.server.Close)
	return s
}

func (s *site) does(h http.HandlerFunc) { s.answer.Store(&h) }

// holds sets the content of the site, with an ETag.
func (s *site) holds(text string) {
	s.does(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(text))))
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
	})
}

const secretQuery = "?token=s3cret"

func (s *site) url() string { return s.server.URL + "/pods.yaml" + secretQuery }

// process returns the Remotes and the Reader of a new podrun process that reads the site.
func (s *site) process() (*Remotes, *Reader) {
	s.t.Helper()
	trust := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate().Raw})
	remotes, err := NewRemotes(s.t.Context(), RemoteOptions{URLs: []string{s.url()}, Timeout: s.timeout, HeaderFile: s.header, Verification: s.verification, Trust: trust, ReadCopy: s.kept.read, WriteCopy: s.kept.write})
	if err != nil {
		s.t.Fatal(err)
	}
	reader, err := NewReader(Options{Dirs: []string{s.url()}, Remotes: remotes, Manifest: manifest.Options{}})
	if err != nil {
		s.t.Fatal(err)
	}
	return remotes, reader
}

// pass polls the site, and reads the result.
func (s *site) pass(remotes *Remotes, reader *Reader) *Snapshot {
	s.t.Helper()
	remotes.poll(s.t.Context(), s.url())
	return s.look(reader)
}

func (s *site) look(reader *Reader) *Snapshot {
	s.t.Helper()
	snapshot, err := reader.Read(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return snapshot
}

// wantPods checks which pods are in effect, and whether podrun may remove pods of the URL.
func wantPods(t *testing.T, s *Snapshot, url string, removable bool, names ...string) {
	t.Helper()
	var have []string
	for _, p := range Merge(s).Pods {
		have = append(have, p.Object.Name)
		if p.Path != url {
			t.Errorf("path of pod %s: %s", p.Object.Name, p.Path)
		}
	}
	if strings.Join(have, ",") != strings.Join(names, ",") {
		t.Errorf("pods %v, want %v (%s)", have, names, s.Dirs[0].Why)
	}
	if may, why := s.MayDefine(url); may == removable {
		t.Errorf("may have held: %t %s", may, why)
	}
}

func podText(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n  containers:\n  - {name: app, image: registry.example/app}\n", name)
	}
	return b.String()
}

func TestRemote(t *testing.T) {
	s := newSite(t)
	s.holds(podText("a", "b"))
	remotes, reader := s.process()
	snapshot := s.look(reader)
	wantPods(t, snapshot, s.url(), false)
	if len(snapshot.News) > 0 {
		t.Errorf("before the first answer: %v", snapshot.News)
	}
	wantPods(t, s.pass(remotes, reader), s.url(), true, "a", "b")
	first := Merge(s.look(reader)).Pods[0].Object
	if second := Merge(s.pass(remotes, reader)).Pods[0].Object; first != second {
		t.Error("a content that has not changed is decoded again")
	}
	s.holds(podText("b"))
	wantPods(t, s.pass(remotes, reader), s.url(), true, "b")
	s.holds("kind: List\napiVersion: v1\nitems: []\n")
	wantPods(t, s.pass(remotes, reader), s.url(), true)
}

// TestRemoteFailures checks that whatever the server does, the last valid content remains in
// effect, podrun may remove no pod, and the reason contains no credentials.
func TestRemoteFailures(t *testing.T) {
	many := podText(strings.Fields(strings.Repeat("x ", 3))...)
	var ten strings.Builder
	for i := range 10000 {
		fmt.Fprintf(&ten, "---\n{apiVersion: v1, kind: Pod, metadata: {name: p%d}, spec: {containers: [{name: a, image: b}]}}\n", i)
	}
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(podText("evil"))) }))
	defer plain.Close()
	body := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(text)) }
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code); w.Write([]byte(podText("evil"))) }
	}
	drip := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			w.Write([]byte("#"))
			w.(http.Flusher).Flush()
			time.Sleep(50 * time.Millisecond)
		}
	}
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		want   string // substring of the reason, or of a problem
	}{
		"not found":          {status(404), "404 Not Found"},
		"gone":               {status(410), "410 Gone"},
		"server error":       {status(500), "500"},
		"no content":         {status(204), "204"},
		"empty":              {body(""), "items: []"},
		"login page":         {body("<html><body>log in</body></html>"), ""},
		"half of a manifest": {body("apiVersion: v1\nkind: Pod\nmeta"), ""},
		"truncated list":     {body("apiVersion: v1\nkind: List\nitems:\n"), ""},
		"twice the name":     {body(many), ""},
		"10,000 pods":        {body(ten.String()), "more than 1000 pods"},
		"too large":          {body(strings.Repeat("# comment\n", 2<<20)), "larger than the limit of 10 MiB"},
		"huge announced":     {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "99999999999") }, "larger than the limit"},
		"cut short": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "500")
			w.Write([]byte(podText("a")))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, "unexpected EOF"},
		"drip":          {drip, "in time"},
		"silence":       {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "in time"},
		"large header":  {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) }, ""},
		"http":          {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, plain.URL, http.StatusFound) }, "not https"},
		"redirect loop": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.String(), http.StatusFound) }, "more than 10 redirects"},
		"hangs up":      {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "closed the connection"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.server.Config.ErrorLog = nil
			if test.want == "in time" {
				s.timeout = 2 * time.Second
			}
			s.holds(podText("a"))
			remotes, reader := s.process()
			s.pass(remotes, reader)
			s.does(test.answer)
			for range 2 {
				snapshot := s.pass(remotes, reader)
				var have []string
				for _, p := range Merge(snapshot).Pods {
					have = append(have, p.Object.Name)
				}
				d := snapshot.Dirs[0]
				text := d.Why + fmt.Sprint(snapshot.Problems())
				if len(have) != 1 || have[0] != "a" || text == "" || !strings.Contains(text, test.want) {
					t.Errorf("pods %v, reason %q, want %q", have, text, test.want)
				}
				if strings.Contains(text, "s3cret") || strings.Contains(fmt.Sprint(snapshot.News), "s3cret") {
					t.Errorf("credentials in %q", text)
				}
			}
			s.holds(podText("a", "b"))
			wantPods(t, s.pass(remotes, reader), s.url(), true, "a", "b")
		})
	}
}

// TestRemoteBoot covers a boot without a network: podrun must use the last valid content, and
// must remove no pod before the server has answered.
func TestRemoteBoot(t *testing.T) {
	s := newSite(t)
	s.holds(podText("a"))
	remotes, reader := s.process()
	s.pass(remotes, reader)
	s.does(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("kind: [broken")) })
	// This does not replace the copy.
	s.pass(remotes, reader)
	up := s.server.URL

	s.does(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	remotes, reader = s.process()
	wantPods(t, s.look(reader), up+"/pods.yaml"+secretQuery, false, "a")
	wantPods(t, s.pass(remotes, reader), s.url(), false, "a")

	asked := ""
	s.does(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Header.Get("If-None-Match")
		w.WriteHeader(http.StatusNotModified)
	})
	wantPods(t, s.pass(remotes, reader), s.url(), true, "a")
	if asked == "" {
		t.Error("the ETag of the copy is not sent")
	}

	s.kept.files[copyName(s.url())] = []byte("{corrupt")
	remotes, reader = s.process()
	snapshot := s.pass(remotes, reader)
	wantPods(t, snapshot, s.url(), false)
	if why := snapshot.Dirs[0].Why; !strings.Contains(why, "304") {
		t.Errorf("304 without a copy: %q", why)
	}
	s.holds(podText("b"))
	s.kept.full = true
	snapshot = s.pass(remotes, reader)
	wantPods(t, snapshot, s.url(), true, "b")
	if !strings.Contains(fmt.Sprint(snapshot.News), "no space left") {
		t.Errorf("a copy that cannot be written is not reported: %v", snapshot.News)
	}
}

func TestRemoteHeaders(t *testing.T) {
	s := newSite(t)
	s.header = filepath.Join(t.TempDir(), "headers")
	write := func(text string) {
		if err := os.WriteFile(s.header, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var elsewhere http.Header
	other := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		elsewhere = r.Header.Clone()
		w.WriteHeader(http.StatusTeapot)
	}))
	defer other.Close()
	var got http.Header
	s.does(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		http.Redirect(w, r, other.URL, http.StatusFound)
	})
	write("# credentials\nAuthorization: Bearer hunter2\nX-Token: hunter3\n")
	remotes, reader := s.process()
	remotes.client.client.Transport.(*http.Transport).TLSClientConfig.InsecureSkipVerify = true
	s.pass(remotes, reader)
	if got.Get("Authorization") != "Bearer hunter2" || got.Get("X-Token") != "hunter3" {
		t.Errorf("headers %v", got)
	}
	if elsewhere == nil || elsewhere.Get("Authorization") != "" || elsewhere.Get("X-Token") != "" || elsewhere.Get("Referer") != "" {
		t.Errorf("headers of another host: %v", elsewhere)
	}
	for text, want := range map[string]string{"X-Token hunter2": "line 1", "\nHost: hunter2": "line 2", "A: hunter\x012": "line 1", "Bad Name: hunter2": "line 1",
		strings.Repeat("A: b\n", 33): "more than 32"} {
		write(text)
		if why := s.pass(remotes, reader).Dirs[0].Why; !strings.Contains(why, want) || strings.Contains(why, "hunter") {
			t.Errorf("header file %q: %q", text, why)
		}
	}
	os.Remove(s.header)
	if why := s.pass(remotes, reader).Dirs[0].Why; !strings.Contains(why, "--source-header-file") {
		t.Errorf("no header file: %q", why)
	}
}

func TestCheckRemote(t *testing.T) {
	for url, ok := range map[string]bool{"https://h/x?a=b": true, "http://h/x": false, "https://u:s3cret@h/": false, "https:///x": false, "https://h/#f": false, "ftp://h/": false, "https://h/" + strings.Repeat("x", 5000): false} {
		err := CheckRemote(url)
		if (err == nil) != ok || err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", url, err)
		}
	}
	if got := Shown("https://u:s3cret@h/x?token=s3cret#s3cret"); got != "https://h/x" {
		t.Error(got)
	}
	_, err := NewRemotes(t.Context(), RemoteOptions{URLs: []string{"https://a/x", "https://b/x"}, HeaderFile: "/h", ReadCopy: (&copies{}).read})
	if err == nil {
		t.Error("headers for several hosts are accepted")
	}
}

// TestRemoteRun checks that Run signals changes, and returns when its context ends.
func TestRemoteRun(t *testing.T) {
	s := newSite(t)
	s.holds(podText("a"))
	remotes, reader := s.process()
	remotes.options.Every = 10 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { remotes.Run(ctx); close(done) }()
	<-remotes.Changed()
	wantPods(t, s.look(reader), s.url(), true, "a")
	s.holds(podText("b"))
	<-remotes.Changed()
	wantPods(t, s.look(reader), s.url(), true, "b")
	cancel()
	<-done
}

// If a server is overloaded, podrun sends the next request at the time that the server
// specifies, but within five minutes.
func TestRetryAfter(t *testing.T) {
	s := newSite(t)
	remotes, _ := s.process()
	for code, want := range map[int]time.Duration{http.StatusTooManyRequests: 2 * time.Minute, http.StatusServiceUnavailable: 2 * time.Minute, http.StatusNotFound: 0} {
		s.does(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(code)
		})
		if got := remotes.poll(t.Context(), s.url()); got != want {
			t.Errorf("%d: the next request is in %v, want %v", code, got, want)
		}
	}
}

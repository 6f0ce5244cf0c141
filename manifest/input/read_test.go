package input

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/test/patience"
)

// tree writes files below a new directory. If a name ends with "/", it is a directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestReadFiles(t *testing.T) {
	dir := tree(t, map[string]string{
		"b.yaml": "b", "a.yml": "a", "c.json": "c", ".hidden.yaml": "h", "notes.txt": "n", "sub.yaml/x.yaml": "x", "one": "1"})
	if err := os.Symlink("b.yaml", filepath.Join(dir, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	sources, err := Read(t.Context(), []string{dir, "-", filepath.Join(dir, "one")}, ReadOptions{Stdin: strings.NewReader("in")})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range sources {
		got = append(got, strings.TrimPrefix(s.Name, dir+"/")+"="+string(s.Data))
	}
	if diff := cmp.Diff([]string{"a.yml=a", "b.yaml=b", "c.json=c", "link.yaml=b", "-=in", "one=1"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestReadProblems checks that each bad name causes one clear message, and that podrun reports
// all of them together.
func TestReadProblems(t *testing.T) {
	dir := tree(t, map[string]string{"empty/": "", "texts/a.txt": "", "large.yaml": strings.Repeat("#", MaxSource+1), "dangling/": ""})
	if err := os.Symlink("nowhere", filepath.Join(dir, "dangling", "a.yaml")); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		names []string
		want  string
	}{
		"missing":            {[]string{"/none/pod.yaml"}, "/none/pod.yaml: no such file or directory (check the path; - reads standard input)"},
		"no manifest":        {[]string{dir + "/texts"}, dir + "/texts: the directory has no manifest (podrun reads the *.yaml, *.yml and *.json files of the directory, but not of subdirectories; specify other files by name)"},
		"empty directory":    {[]string{dir + "/empty"}, dir + "/empty: the directory has no manifest (podrun reads the *.yaml, *.yml and *.json files of the directory, but not of subdirectories; specify other files by name)"},
		"dangling symlink":   {[]string{dir + "/dangling"}, dir + "/dangling/a.yaml: no such file or directory (check the path; - reads standard input)"},
		"too large":          {[]string{dir + "/large.yaml"}, dir + "/large.yaml: larger than 10 MiB (is it a manifest?)"},
		"without end":        {[]string{"/dev/zero"}, "/dev/zero: larger than 10 MiB (is it a manifest?)"},
		"below a file":       {[]string{dir + "/large.yaml/x"}, dir + "/large.yaml/x: not a directory"},
		"empty name":         {[]string{""}, "a file name is empty (name a file, a directory or - for standard input; a variable in the command line may be empty)"},
		"stdin twice":        {[]string{"-", "-"}, "-: standard input is specified twice (specify - once)"},
		"no scheme we know":  {[]string{"ftp://host/a"}, "ftp://host/a: a URL of scheme \"ftp\" is not supported (use https)"},
		"http":               {[]string{"http://example.com/a?token=s3cret"}, "http://example.com/a: http is not supported: a manifest could be changed in transit (use https)"},
		"http to an address": {[]string{"http://[2001:db8::1]/a"}, "http://[2001:db8::1]/a: http is not supported: a manifest could be changed in transit (use https)"},
		"not a URL":          {[]string{"https://user:s3cret@ho st/a"}, "https://ho st/a: not a valid URL (write https://host/path)"},
		"no host":            {[]string{"https:///a"}, "https:///a: the URL has no host (use https)"},
		"two":                {[]string{"/none/a", "/none/b"}, "/none/a: no such file or directory (check the path; - reads standard input)\n/none/b: no such file or directory (check the path; - reads standard input)"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(t.Context(), tc.names, ReadOptions{Stdin: strings.NewReader("")})
			var e *problem.Error
			if !errors.As(err, &e) || e.Kind != problem.Manifest {
				t.Fatalf("error %v", err)
			}
			if got := e.Problems.String(); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
	var e *problem.Error
	if _, err := Read(t.Context(), nil, ReadOptions{}); !errors.As(err, &e) || e.Kind != problem.Usage {
		t.Errorf("no name: %v", err)
	}
}

// TestReadOnAnExhaustedHost checks that podrun does not report a lack of file descriptors as a
// problem of the manifest.
func TestReadOnAnExhaustedHost(t *testing.T) {
	in := iotest.ErrReader(&fs.PathError{Op: "open", Path: "pod.yaml", Err: syscall.EMFILE})
	_, err := Read(t.Context(), []string{"-"}, ReadOptions{Stdin: in})
	if e, ok := errors.AsType[*problem.Error](err); !ok || e.Kind != problem.Runtime || !strings.Contains(e.Problems.String(), "-: too many open files (increase the limit") {
		t.Errorf("error %v", err)
	}
}

// TestReadCanceled checks that Ctrl-C ends the wait for a pipe that has no writer.
func TestReadCanceled(t *testing.T) {
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	r, w := io.Pipe()
	defer w.Close()
	time.AfterFunc(10*time.Millisecond, func() { cancel(stopped) })
	if _, err := Read(ctx, []string{"-"}, ReadOptions{Stdin: r}); !errors.Is(err, stopped) {
		t.Errorf("error %v", err)
	}
}

// TestReadURL covers possible responses of a server, over https and from this host.
func TestReadURL(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "plain") }))
	defer plain.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("/pod.yaml", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "tls") })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/pod.yaml", http.StatusFound) })
	mux.HandleFunc("/down", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, plain.URL, http.StatusFound) })
	mux.HandleFunc("/round", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/round", http.StatusFound) })
	mux.HandleFunc("/large", func(w http.ResponseWriter, r *http.Request) { io.CopyN(w, zeros{}, MaxSource+1) })
	mux.HandleFunc("/denied", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusForbidden) })
	mux.HandleFunc("/broken", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	tls := httptest.NewTLSServer(mux)
	defer tls.Close()
	u, err := url.Parse(tls.URL)
	if err != nil {
		t.Fatal(err)
	}
	base := "https://user:s3cret@" + u.Host
	for path, want := range map[string]string{
		base + "/pod.yaml?token=s3cret#f": "tls",
		base + "/moved":                   "tls",
		plain.URL:                         "plain",
		base + "/none?token=s3cret":       `: the server returned 404 Not Found (check the URL)`,
		base + "/denied":                  `: the server returned 403 Forbidden (download it with credentials and pass it on standard input (-))`,
		base + "/broken":                  `: the server returned 502 Bad Gateway (try again later)`,
		base + "/down":                    ": a redirect to http: http is not supported: a manifest could be changed in transit (use the https URL of the manifest itself)",
		base + "/round":                   ": more than 10 redirects",
		base + "/large":                   ": larger than 10 MiB (is it a manifest?)",
	} {
		sources, err := Read(t.Context(), []string{path}, ReadOptions{HTTPClient: tls.Client()})
		if err == nil {
			if string(sources[0].Data) != want || strings.Contains(sources[0].Name, "s3cret") {
				t.Errorf("%s: %s from %s, want %s", path, sources[0].Data, sources[0].Name, want)
			}
			continue
		}
		if !strings.HasSuffix(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	_, err = Read(t.Context(), []string{base + "/pod.yaml"}, ReadOptions{})
	if err == nil || !strings.Contains(err.Error(), "certificate") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("a certificate of an unknown authority: %v", err)
	}
	plain.Close()
	if _, err = Read(t.Context(), []string{plain.URL}, ReadOptions{}); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("a server that was stopped: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestS11LongAnswers checks that a message contains only a part of a server's status line or of
// a malformed response.
func TestS11LongAnswers(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	for name, response := range map[string]string{
		"status": "HTTP/1.1 500 " + long + "\r\n\r\n", "code": "HTTP/1.1 " + long + " a\r\n\r\n", "no HTTP": long + "\r\n\r\n", "header": "HTTP/1.1 200 OK\r\n" + long + "\r\n\r\n",
		"redirect": "HTTP/1.1 302 Found\r\nLocation: http://[" + long + "\r\n\r\n",
	} {
		server := answering(t, response)
		if _, err := Read(t.Context(), []string{server + "/pod.yaml"}, ReadOptions{}); err == nil || len(err.Error()) > 2000 {
			t.Errorf("%s: %d bytes: %.200v", name, len(fmt.Sprint(err)), err)
		}
	}
}

// answering returns the URL of a server. The server responds to one connection.
func answering(t *testing.T, response string) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		io.WriteString(conn, response)
		io.Copy(io.Discard, conn)
	}()
	return "http://" + listener.Addr().String()
}

// D9: if a server redirects, podrun must not send the query of the original URL to the target,
// because the query may contain a token.
func TestD9NoReferer(t *testing.T) {
	var referers []string
	other := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		referers = append(referers, r.Header.Get("Referer"))
		fmt.Fprint(w, "a: b")
	}))
	defer other.Close()
	first := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusFound)
	}))
	defer first.Close()
	if _, err := Read(t.Context(), []string{first.URL + "/pod.yaml?token=s3cret"}, ReadOptions{HTTPClient: first.Client()}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{""}, referers); diff != "" {
		t.Error(diff)
	}
}

// F9: if a FIFO, a standard input or a server sends nothing more, the read must end with the
// context.
func TestF9ReadEndsWithContext(t *testing.T) {
	drips := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			fmt.Fprint(w, "#")
			w.(http.Flusher).Flush()
			time.Sleep(time.Millisecond)
		}
	}))
	defer drips.Close()
	dir := t.TempDir()
	fifo, silent := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "silent.txt")
	for _, name := range []string{fifo, silent} {
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// This FIFO has a writer that writes nothing.
	open, err := os.OpenFile(silent, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	stdin, w := io.Pipe()
	defer w.Close()
	timeout := errors.New("the time is up")
	for _, name := range []string{fifo, dir, silent, "-", drips.URL} {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, timeout)
		done := make(chan error, 1)
		go func() {
			_, err := Read(ctx, []string{name}, ReadOptions{Stdin: stdin})
			done <- err
		}()
		err := patience.Receive(t, "Read of "+name+" returns", done)
		cancel()
		if !errors.Is(err, timeout) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// podrun must read a FIFO, such as a shell's <(command), to its end.
func TestReadFIFO(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "63")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	wrote := make(chan error, 1)
	go func() { wrote <- os.WriteFile(fifo, []byte("a: b"), 0) }()
	sources, err := Read(t.Context(), []string{fifo}, ReadOptions{})
	if err != nil || string(sources[0].Data) != "a: b" {
		t.Errorf("%v, %v", sources, err)
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
}

// F3: podrun must limit the total size and the number of files in a directory.
func TestF3DirectoryBounded(t *testing.T) {
	files := map[string]string{}
	for i := range 5 {
		files[fmt.Sprintf("%d.yaml", i)] = strings.Repeat("#", 9<<20)
	}
	dir := tree(t, files)
	_, err := Read(t.Context(), []string{dir}, ReadOptions{})
	if want := dir + "/3.yaml: this file makes the input larger than 32 MiB (apply fewer files at a time)"; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	files = map[string]string{}
	for i := range MaxFiles + 1 {
		files[fmt.Sprintf("%d.yaml", i)] = ""
	}
	dir = tree(t, files)
	_, err = Read(t.Context(), []string{dir}, ReadOptions{})
	if want := dir + ": the directory has more than 10000 manifests"; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

package e2e

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// slowRegistry is a proxy for the test registry. It counts requests, and limits the rate of
// blobs.
type slowRegistry struct {
	t       *testing.T
	address string

	// credentials that the registry accepts; if they are empty, it accepts any
	user, password string

	mu       sync.Mutex
	requests []string
	// bytes per second of each blob; 0 means no limit
	rate int64
	// the maximum number of bytes of a layer's blob that the registry sends; 0 means all
	stallAt int64
	stalls  int   // number of blobs that will still stall
	sent    int64 // number of bytes of blobs that the registry has sent
	// the number of sent bytes at which rings is closed; 0 means at the first request
	alarm int64
	// see alarm; nil if no alarm is set
	rings      chan struct{}
	hold, held bool // held: it sends nothing, because rings was closed and hold is set
}

func newSlowRegistry(t *testing.T) *slowRegistry {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &slowRegistry{t: t, address: l.Addr().String()}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: os.Getenv("PODRUN_TEST_REGISTRY")})
	proxy.ModifyResponse = s.slow
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Method+" "+r.URL.Path)
		s.mu.Unlock()
		s.add(0)
		if user, password, _ := r.BasicAuth(); s.user != "" && (user != s.user || password != s.password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="e2e"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		proxy.ServeHTTP(w, r)
	})}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })
	return s
}

// image pushes an image whose layers have the given size and contain random bytes. It returns
// the image's name in this registry. At the end of the test, it removes the image from the
// runtime.
func (s *slowRegistry) image(r *rig, repository string, size int64, layers int) string {
	s.t.Helper()
	image, err := random.Image(size, int64(layers))
	if err != nil {
		s.t.Fatal(err)
	}
	return s.push(r, repository, image)
}

// zeros pushes an image with one layer that is small, but large when unpacked.
func (s *slowRegistry) zeros(r *rig, repository string, size int64) string {
	s.t.Helper()
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		out, in := io.Pipe()
		go func() {
			w := tar.NewWriter(in)
			err := w.WriteHeader(&tar.Header{Name: "zeros", Typeflag: tar.TypeReg, Mode: 0o644, Size: size})
			for left := size; err == nil && left > 0; left -= megabyte {
				_, err = w.Write(make([]byte, min(left, megabyte)))
			}
			in.CloseWithError(errors.Join(err, w.Close()))
		}()
		return out, nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		s.t.Fatal(err)
	}
	if image, err = mutate.ConfigFile(image, &v1.ConfigFile{OS: "linux", Architecture: runtime.GOARCH,
		RootFS: v1.RootFS{Type: "layers", DiffIDs: diffIDs(s.t, layer)}}); err != nil {
		s.t.Fatal(err)
	}
	return s.push(r, repository, image)
}

func diffIDs(t *testing.T, layer v1.Layer) []v1.Hash {
	id, err := layer.DiffID()
	if err != nil {
		t.Fatal(err)
	}
	return []v1.Hash{id}
}

// push pushes an image and returns its name in this registry. The default tag is 1.
func (s *slowRegistry) push(r *rig, repository string, image v1.Image) string {
	s.t.Helper()
	if !strings.Contains(repository, ":") {
		repository += ":1"
	}
	tag, err := name.NewTag(fmt.Sprintf("%s/e2e/%s", os.Getenv("PODRUN_TEST_REGISTRY"), repository), name.Insecure)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := remote.Write(tag, image); err != nil {
		s.t.Fatal(err)
	}
	ref := s.address + "/e2e/" + repository
	s.t.Cleanup(func() { r.podrun("image", "rm", ref) })
	return ref
}

func (s *slowRegistry) set(rate, stallAt int64, stalls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rate, s.stallAt, s.stalls, s.requests, s.held = rate, stallAt, stalls, nil, false
}

func (s *slowRegistry) count(contains string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.requests {
		if strings.Contains(r, contains) {
			n++
		}
	}
	return n
}

// ringAt returns a channel that is closed when the registry has sent the given number of further
// bytes of blobs. If bytes is 0, it is closed at the first request. With hold, the registry then sends nothing more
// until the next call of set.
func (s *slowRegistry) ringAt(bytes int64, hold bool) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent, s.alarm, s.rings, s.hold = 0, bytes, make(chan struct{}), hold
	return s.rings
}

// add counts the bytes that the registry has sent.
func (s *slowRegistry) add(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent += n
	if s.rings != nil && s.sent >= s.alarm {
		close(s.rings)
		s.rings, s.held = nil, s.hold
	}
}

func (s *slowRegistry) isHeld() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// slow limits the rate of a blob.
func (s *slowRegistry) slow(r *http.Response) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !strings.Contains(r.Request.URL.Path, "/blobs/") || r.Request.Method != http.MethodGet || r.ContentLength < 1<<16 {
		return nil
	}
	body := &slowBody{of: s, ReadCloser: r.Body, rate: s.rate, begun: time.Now(), gone: r.Request.Context().Done()}
	if s.stallAt > 0 && s.stalls > 0 {
		s.stalls--
		body.stallAt = s.stallAt
	}
	r.Body = body
	return nil
}

type slowBody struct {
	of *slowRegistry
	io.ReadCloser
	rate, stallAt, sent int64
	begun               time.Time
	gone                <-chan struct{}
}

func (b *slowBody) Read(p []byte) (int, error) {
	if b.stallAt > 0 && b.sent >= b.stallAt || b.of.isHeld() {
		<-b.gone
		return 0, io.ErrUnexpectedEOF
	}
	p = p[:min(len(p), 1<<15)]
	if b.rate > 0 {
		due := b.begun.Add(time.Duration(float64(b.sent) / float64(b.rate) * float64(time.Second)))
		select {
		case <-time.After(time.Until(due)):
		case <-b.gone:
			return 0, io.ErrUnexpectedEOF
		}
	}
	n, err := b.ReadCloser.Read(p)
	b.sent += int64(n)
	b.of.add(int64(n))
	return n, err
}

package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/podrun/podrun/internal/wait"
)

// RemoteOptions are the inputs of NewRemotes.
type RemoteOptions struct {
	URLs    []string      // https or oci; see CheckRemote
	Every   time.Duration // interval between reads; 0 means 20 s, the kubelet's httpCheckFrequency
	Timeout time.Duration // limit for one request, including the response's content; 0 means 30 s
	// a file with headers, which podrun reads again before each request; "" for none
	HeaderFile string
	// ReadCopy and WriteCopy read and write the last valid content of each URL. The name of a copy
	// can be used as a file name.
	ReadCopy  func(name string) ([]byte, error)
	WriteCopy func(name string, data []byte) error
	// Verification makes podrun take only signed content; nil for none.
	Verification *Verification
	// Trust are PEM certificates in addition to the system's, for tests.
	Trust []byte
}

// Remotes polls URLs for a Reader.
type Remotes struct {
	options RemoteOptions
	changed wait.Signal
	client  *fetcher

	mu   sync.Mutex
	urls map[string]*content
}

// NewRemotes loads the copies that earlier processes have stored. To poll the URLs, call Run.
func NewRemotes(ctx context.Context, o RemoteOptions) (*Remotes, error) {
	if o.Every <= 0 {
		o.Every = defaultRelist
	}
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
	r := &Remotes{options: o, changed: wait.NewSignal(), urls: map[string]*content{}, client: newFetcher(o)}
	hosts := map[string]bool{}
	for _, name := range o.URLs {
		if err := CheckRemote(name); err != nil {
			return nil, fmt.Errorf("source %s: %w", printable(name), err)
		}
		hosts[hostOf(name)] = true
		c := &content{}
		r.urls[name] = c
		data, err := o.ReadCopy(copyName(name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("source %s: read its copy: %w", printable(name), err)
		}
		if kept, ok := decodeCopy(data, name); err == nil && ok {
			*c = content{
				have:   true,
				data:   kept.Data,
				size:   int64(len(kept.Data)),
				sum:    sha256.Sum256(kept.Data),
				serial: 1,
				etag:   kept.ETag,
				signed: kept.signed(),
			}
			if err := o.Verification.checkCopy(ctx, name, c); err != nil {
				*c = content{err: fmt.Errorf("the stored copy of its content cannot be used: %w", err)}
			}
		}
	}
	if len(hosts) > 1 && o.HeaderFile != "" {
		return nil, errors.New("--source-header-file: podrun would send the headers to all hosts of the URLs: use URLs of one host")
	}
	return r, nil
}

// copyName returns the name of a URL's copy.
func copyName(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:16])
}

// Copies returns the names of the copies of all URLs.
func (r *Remotes) Copies() []string {
	var out []string
	for name := range r.urls {
		out = append(out, copyName(name))
	}
	return out
}

// Changed receives a signal when the content or the state of a URL has changed.
func (r *Remotes) Changed() <-chan struct{} { return r.changed }

// Run polls all URLs until ctx ends.
func (r *Remotes) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for name := range r.urls {
		all.Go(func() {
			for ctx.Err() == nil {
				asked := r.poll(ctx, name)
				select {
				case <-ctx.Done():
				case <-time.After(max(r.options.Every, asked)):
				}
			}
		})
	}
}

// poll reads a URL once, and returns how long the server asks podrun to wait before the next
// request.
func (r *Remotes) poll(ctx context.Context, name string) time.Duration {
	r.mu.Lock()
	c := r.urls[name]
	etag := ""
	if c.have {
		etag = c.etag
	}
	r.mu.Unlock()
	got, err := r.fetch(ctx, name, etag)
	if ctx.Err() != nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before := *c
	c.err = err
	if err == nil {
		c.fetched = true
		if !got.unchanged {
			c.take(got)
		}
		if got.signed.sums != nil {
			c.signed = got.signed
		}
	}
	if before.serial != c.serial || before.fetched != c.fetched || reason(before.err) != reason(c.err) {
		r.changed.Send()
	}
	return got.retryAfter
}

// fetch reads the content of a URL, and verifies it.
func (r *Remotes) fetch(ctx context.Context, name, etag string) (answer, error) {
	if IsArtifact(name) {
		return r.fetchArtifact(ctx, name, etag)
	}
	if r.options.Verification == nil {
		return r.client.fetch(ctx, name, etag)
	}
	return r.fetchSigned(ctx, name)
}

// take processes a server's response.
func (c *content) take(got answer) {
	c.etag = got.etag
	if c.have && c.sum == sha256.Sum256(got.data) {
		return
	}
	c.have = true
	c.data = got.data
	c.size = int64(len(got.data))
	c.sum = sha256.Sum256(got.data)
	c.serial++
}

func reason(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// read determines the state of a URL, and stores its content if the content is valid. If it
// cannot store the content, it returns an error together with the result.
func (r *Remotes) read(ctx context.Context, rules rules, name string, prev *Dir) (Dir, error) {
	r.mu.Lock()
	c := *r.urls[name]
	r.mu.Unlock()
	d := rules.remote(ctx, name, prev, c)
	if ctx.Err() != nil || c.data == nil {
		return d, nil
	}
	var err error
	if len(d.Files) == 1 && d.Files[0].settled == Good && c.fetched {
		var data []byte
		if data, err = json.Marshal(newCopy(name, c, c.data)); err == nil {
			err = r.options.WriteCopy(copyName(name), data)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.urls[name]; now.serial == c.serial && now.fetched == c.fetched {
		// From now on, only the objects are needed.
		now.data = nil
	}
	return d, err
}

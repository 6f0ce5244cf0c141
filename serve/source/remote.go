package source

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/podrun/podrun/manifest/input"
)

// IsRemote reports whether a source is a URL, and not a directory.
func IsRemote(name string) bool { return strings.Contains(name, "://") }

// CheckRemote checks the URL of a source. Its error does not contain the URL, because the URL
// may contain credentials.
func CheckRemote(name string) error {
	if IsArtifact(name) {
		if len(name) > maxURL {
			return fmt.Errorf("longer than %d bytes", maxURL)
		}
		_, err := parseArtifact(name)
		return err
	}
	u, err := url.Parse(name)
	switch {
	case err != nil:
		return errors.New("not a valid URL: write https://host/path")
	case u.Scheme != "https":
		return errors.New("not an https or oci URL: http manifests can be changed in transit")
	case u.Hostname() == "":
		return errors.New("the URL has no host")
	case u.User != nil:
		return errors.New("the URL contains credentials, which every user of this host can read: use --source-header-file")
	case u.Fragment != "":
		return errors.New("the URL has a fragment")
	case len(name) > maxURL:
		return fmt.Errorf("longer than %d bytes", maxURL)
	}
	return nil
}

// Limits of remote sources.
const (
	maxURL        = 4096
	maxETag       = 1024
	maxHeaders    = 32
	maxHeaderFile = 64 << 10
)

// maxRetryAfter is the longest time for which a server can make podrun wait.
const maxRetryAfter = 5 * time.Minute

// header is one line of a header file.
type header struct{ name, value string }

// parseHeaders parses lines such as "Authorization: Bearer …". It ignores empty lines, and
// lines that begin with #. The error contains the line's number, not its content.
func parseHeaders(data []byte) ([]header, error) {
	var out []header
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, found := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		bad := func(r rune) bool { return r < ' ' || r == 0x7f }
		switch {
		case !found || !isToken(name) || strings.ContainsFunc(value, bad):
			return nil, fmt.Errorf("line %d is not a header such as \"Authorization: Bearer TOKEN\"", i+1)
		case slices.Contains([]string{"host", "content-length", "transfer-encoding", "connection", "if-none-match", "range", "accept-encoding"}, strings.ToLower(name)):
			return nil, fmt.Errorf("line %d sets a header that podrun sets itself", i+1)
		case len(out) == maxHeaders:
			return nil, fmt.Errorf("more than %d headers", maxHeaders)
		}
		out = append(out, header{name, value})
	}
	return out, nil
}

// isToken reports whether a name is valid for a header (RFC 9110, 5.6.2).
func isToken(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// remoteCopy is the last valid content of a URL as stored on disk.
type remoteCopy struct {
	URL  string `json:"url"`
	ETag string `json:"etag,omitempty"`
	Data []byte `json:"data"`
	// the signed list, with its signature; empty if the content was not verified
	Sums      []byte `json:"sums,omitempty"`
	Signature []byte `json:"signature,omitempty"`
}

func newCopy(name string, c content, data []byte) remoteCopy {
	return remoteCopy{URL: name, ETag: c.etag, Data: data, Sums: c.signed.sums, Signature: c.signed.signature}
}

func (c remoteCopy) signed() signedList { return signedList{sums: c.Sums, signature: c.Signature} }

// decodeCopy decodes a copy; it returns false if the copy is corrupt, or of another URL.
func decodeCopy(data []byte, of string) (remoteCopy, bool) {
	var c remoteCopy
	ok := json.Unmarshal(data, &c) == nil && c.URL == of && len(c.Data) > 0 && len(c.Data) <= input.MaxSource
	return c, ok
}

// isEmptyList reports whether the content is an empty list. An empty list explicitly requests
// that there be no pods; empty content does not.
func isEmptyList(data []byte) bool {
	const longest = 4096
	if len(data) > longest {
		return false
	}
	var list struct {
		Kind  string `json:"kind"`
		Items *[]any `json:"items"`
	}
	return yaml.Unmarshal(data, &list) == nil && (list.Kind == "List" || list.Kind == "PodList") && list.Items != nil && len(*list.Items) == 0
}

// remote determines the state of a URL, as dir does for a directory.
func (r rules) remote(ctx context.Context, name string, prev *Dir, c content) Dir {
	d := Dir{Path: name}
	if prev != nil {
		d = *prev
	}
	if c.have {
		o := observation{name: remoteFile, print: print{inode: c.serial, size: c.size}, data: c.data, remote: true, artifact: IsArtifact(name)}
		o.kept = prev != nil && len(prev.Files) == 1 && prev.Files[0].print == o.print
		if !o.kept && c.data == nil {
			// c.data is never nil here, because it remains until the state has been determined.
			return d
		}
		d = r.dir(ctx, name, prev, Identity{}, listing{identity: Identity{Inode: 1}, files: []observation{o}})
		d.young = false
	}
	d.stale = !c.fetched
	d.pending = !c.have && c.err == nil
	switch {
	case c.err != nil:
		d.State = failedState(c.err)
		d.Why = c.err.Error()
	case !c.have:
		d.State = Unreachable
		d.Why = "it has not been read yet"
	}
	return d
}

// remoteFile is the name of the file of a URL; it is never shown.
const remoteFile = "content.yaml"

// content is the known state of a URL.
type content struct {
	// this or an earlier process has read data
	have    bool
	fetched bool   // the server has answered this process
	data    []byte // nil when the state has been determined
	size    int64
	sum     [sha256.Size]byte
	serial  uint64 // counts different contents
	etag    string
	err     error // why the last request failed; nil otherwise
	signed  signedList
	refused refusedArtifact
}

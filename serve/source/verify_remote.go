package source

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"

	"github.com/podrun/podrun/serve/source/signature"
)

// fetchSigned reads the signed list of a URL and, if the content differs from the one that podrun has, the
// content. The list decides whether it differs, so no ETag is necessary.
func (r *Remotes) fetchSigned(ctx context.Context, name string) (answer, error) {
	v := r.options.Verification
	list, got, err := r.fetchList(ctx, name)
	if err != nil {
		return got, err
	}
	sums, err := v.check(ctx, name, list)
	if err == nil {
		err = v.fresh(name, sums)
	}
	if err != nil {
		return answer{}, unverifiedError{err}
	}
	r.mu.Lock()
	has := *r.urls[name]
	r.mu.Unlock()
	out := answer{unchanged: has.have && sums.Check(fileOf(name), has.sum) == nil, signed: list}
	if !out.unchanged {
		if out, err = r.client.fetch(ctx, name, ""); err != nil {
			return out, err
		}
		out.signed = list
		if err := sums.Check(fileOf(name), sha256.Sum256(out.data)); err != nil {
			return answer{}, unverifiedError{fmt.Errorf("%s: %w", fileOf(name), err)}
		}
	}
	if err := v.accept(name, sums); err != nil {
		return answer{}, unverifiedError{err}
	}
	if out.unchanged && !list.equal(has.signed) {
		err = r.signCopy(name, has.sum, list)
	}
	return out, err
}

// fetchList reads the signed list of a URL. After an error, it returns the answer of the server.
func (r *Remotes) fetchList(ctx context.Context, name string) (list signedList, got answer, err error) {
	for _, file := range []struct {
		suffix string
		limit  int64
		into   *[]byte
	}{{sumsSuffix, signature.MaxSums, &list.sums}, {sumsSuffix + signatureSuffix, signature.MaxSignature, &list.signature}} {
		at, err := sibling(name, file.suffix)
		if err != nil {
			return list, answer{}, err
		}
		if got, err = r.client.fetchFile(ctx, at, "", file.limit); err != nil {
			return list, got, fmt.Errorf("%s: %w", fileOf(at), err)
		}
		*file.into = got.data
	}
	return list, got, nil
}

func (l signedList) equal(other signedList) bool {
	return bytes.Equal(l.sums, other.sums) && bytes.Equal(l.signature, other.signature)
}

// signCopy adds a new list to the stored copy of a URL with this content, because the key of the old list may be
// removed.
func (r *Remotes) signCopy(name string, sum [sha256.Size]byte, list signedList) error {
	data, err := r.options.ReadCopy(copyName(name))
	if err != nil {
		return nil // read stores the copy together with the list
	}
	kept, ok := decodeCopy(data, name)
	if !ok || sum != sha256.Sum256(kept.Data) {
		return nil // the content is not valid, so that the copy has an earlier one
	}
	kept.Sums = list.sums
	kept.Signature = list.signature
	if data, err = json.Marshal(kept); err == nil {
		err = r.options.WriteCopy(copyName(name), data)
	}
	return err
}

// checkCopy verifies the stored copy of a URL. The serial may be below the last one, because podrun stores
// only valid manifests. Without a Verification, every copy can be used.
func (v *Verification) checkCopy(ctx context.Context, name string, c *content) error {
	if v == nil {
		return nil
	}
	if len(c.signed.sums) == 0 {
		return unverifiedError{errors.New("it was stored without --source-verify")}
	}
	sums, err := v.check(ctx, name, c.signed)
	switch {
	case err != nil:
	case IsArtifact(name):
		err = checkFiles(sums, c.data)
	default:
		err = sums.Check(fileOf(name), c.sum)
	}
	if err != nil {
		return unverifiedError{err}
	}
	return nil
}

// sibling returns the URL of a file beside that of a URL. The suffix is part of the path, because the query may
// contain credentials.
func sibling(name, suffix string) (string, error) {
	u, err := url.Parse(name)
	if err != nil || !signature.IsFileName(path.Base(u.Path)) || path.Base(u.Path) == "/" {
		return "", errors.New("the path of the URL has no name of a file, to which podrun can append " + sumsSuffix)
	}
	u.Path += suffix
	if u.RawPath != "" {
		u.RawPath += suffix
	}
	return u.String(), nil
}

// fileOf returns the name of a URL's file in its signed list.
func fileOf(name string) string {
	u, err := url.Parse(name)
	if err != nil {
		return ""
	}
	return path.Base(u.Path)
}

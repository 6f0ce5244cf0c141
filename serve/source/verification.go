package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/serve/source/signature"
)

// Verification makes podrun take a source only if its content is signed, as docs/design/trust.md describes.
type Verification struct {
	// Signers is the path of the file with the keys (signature.ParseSigners). podrun reads it at each pass, so
	// that keys can be replaced.
	Signers string
	// ReadAccepted and WriteAccepted read and write the record of the content that podrun took last from a
	// source. WriteAccepted syncs the record.
	ReadAccepted  func(source string) (Accepted, error)
	WriteAccepted func(source string, a Accepted) error
}

// Accepted is the record of the signed content that podrun took last from a source.
type Accepted struct {
	Serial uint64 `json:"serial"` // 0 if podrun has taken no content
	Sums   string `json:"sums"`   // the SHA-256 of the list, in hex
}

// The names of the list and its signature: in a directory, and as suffixes of a single file or URL.
const (
	sumsFile        = "SHA256SUMS"
	sumsSuffix      = ".sums"
	signatureSuffix = ".sig"
)

// signedList is a list of files with its signature; err is why it could not be read.
type signedList struct {
	sums, signature []byte
	err             error
}

// check verifies the signature of a source's list, but not the serial.
func (v *Verification) check(ctx context.Context, source string, l signedList) (signature.Sums, error) {
	if l.err != nil {
		return signature.Sums{}, l.err
	}
	signers, err := v.readSigners(ctx)
	if err != nil {
		return signature.Sums{}, fmt.Errorf("--source-verify %s: %w", v.Signers, err)
	}
	if err := signers.Verify(l.sums, l.signature); err != nil {
		return signature.Sums{}, err
	}
	sums, err := signature.ParseSums(l.sums)
	if err != nil {
		return signature.Sums{}, fmt.Errorf("the signed list of files: %w", err)
	}
	if sums.Source != "" && sums.Source != Shown(source) {
		return signature.Sums{}, fmt.Errorf("the signed list of files is for another source: %q", sums.Source)
	}
	return sums, nil
}

// readSigners reads the file with the keys. It refuses a file that users other than root can write.
func (v *Verification) readSigners(ctx context.Context) (signature.Signers, error) {
	var st unix.Stat_t
	if err := unix.Stat(v.Signers, &st); err != nil {
		return nil, err
	}
	switch who := permissionsOf(&st); {
	case who.all:
		return nil, errWorldWritable
	case who.String() != "":
		return nil, fmt.Errorf("refused, because %s (fix: chown root, chmod go-w)", who)
	}
	data, err := hostfile.Read(ctx, v.Signers, signature.MaxSigners)
	if err != nil {
		return nil, cause(err)
	}
	return signature.ParseSigners(data)
}

// basis returns what a refusal of unchanged content depends on: the keys, and the content that podrun took last.
func (v *Verification) basis(ctx context.Context, source string) string {
	if v == nil {
		return ""
	}
	keys, err := hostfile.Read(ctx, v.Signers, signature.MaxSigners)
	last, unread := v.ReadAccepted(source)
	var st unix.Stat_t
	failed := unix.Stat(v.Signers, &st)
	return fmt.Sprintf("%x %v %+v %v %v %o %d %d", sha256.Sum256(keys), err, last, unread, failed, st.Mode, st.Uid, st.Gid)
}

// fresh returns why a list is older than the content that podrun took last from the source; nil if it is not.
func (v *Verification) fresh(source string, s signature.Sums) error {
	last, err := v.ReadAccepted(source)
	switch {
	case err != nil:
		return err
	case s.Serial < last.Serial:
		return fmt.Errorf("the serial %d is below that of the last content, %d", s.Serial, last.Serial)
	case s.Serial == last.Serial && last.Sums != hex.EncodeToString(s.Digest[:]):
		return fmt.Errorf("the serial %d was already used for other content: increase it", s.Serial)
	}
	return nil
}

// accept records that podrun takes the content of a list, which must be fresh.
func (v *Verification) accept(source string, s signature.Sums) error {
	last, err := v.ReadAccepted(source)
	if err == nil && last.Serial < s.Serial {
		err = v.WriteAccepted(source, Accepted{Serial: s.Serial, Sums: hex.EncodeToString(s.Digest[:])})
	}
	return err
}

// verified returns the files of a directory that are signed. If podrun must not take the directory, the
// listing's err is set. before is the state after the previous pass, or nil.
func (v *Verification) verified(ctx context.Context, dir string, before *Dir, l listing) listing {
	if v == nil || l.err != nil {
		return l
	}
	sums, err := v.check(ctx, dir, l.signed)
	if err == nil {
		err = v.fresh(dir, sums)
	}
	if err == nil {
		err = l.keepSigned(dir, before, sums)
	}
	if err == nil {
		err = v.accept(dir, sums)
	}
	if err != nil {
		return listing{err: unverifiedError{err}}
	}
	return l
}

// unverifiedError is the error of a source whose content podrun must not use.
type unverifiedError struct{ error }

func (e unverifiedError) Unwrap() error { return e.error }

// failedState returns the state of a source after an error.
func failedState(err error) DirState {
	if _, ok := errors.AsType[unverifiedError](err); ok {
		return Unverified
	}
	return Unreachable
}

// keepSigned removes the files that are not listed. The error is the first listed manifest that is missing or
// differs.
func (l *listing) keepSigned(dir string, before *Dir, sums signature.Sums) error {
	found := map[string]bool{}
	var differs error
	l.files = slices.DeleteFunc(l.files, func(o observation) bool {
		name := o.name
		if name == "" {
			name = filepath.Base(dir)
		}
		found[name] = true
		if _, listed := sums.Files[name]; !listed {
			if len(l.unsigned) < maxIgnored {
				l.unsigned = append(l.unsigned, printable(name))
			}
			return true
		}
		err := o.err
		if err == nil {
			err = sums.Check(name, o.digest(before))
		}
		if err != nil && differs == nil {
			differs = fmt.Errorf("%s: %w", printable(name), err)
		}
		return false
	})
	if differs != nil {
		return differs
	}
	l.marked = l.marked || len(l.files) == 0
	return missing(sums, found)
}

// missing returns an error if a manifest of the list was not found.
func missing(sums signature.Sums, found map[string]bool) error {
	for _, name := range slices.Sorted(maps.Keys(sums.Files)) {
		if kindOfName(name) == manifestName && !found[name] {
			return fmt.Errorf("%s is missing", printable(name))
		}
	}
	return nil
}

// digest returns the digest of an observed file: if the file has not been read again, that of its content in
// the previous pass.
func (o observation) digest(before *Dir) (out [sha256.Size]byte) {
	if !o.kept {
		return sha256.Sum256(o.data)
	}
	for i := range before.Files {
		if f := &before.Files[i]; f.name == o.name {
			_, _ = hex.Decode(out[:], []byte(f.Hash)) // a Hash that is not a digest matches no file
		}
	}
	return out
}

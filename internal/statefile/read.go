package statefile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
)

// Found is the result of examining a file.
type Found[T any] struct {
	State State
	// Value is the content. If the file is corrupt or newer, it contains the parts that could be
	// decoded.
	Value   T
	Version int // 0 if the file has none
	// Fault describes the state; nil if the file is intact or absent.
	Fault *Fault
}

// load reads a file without decoding it. The state is not Newer. err is nil if it is Intact or Absent.
func load(ctx context.Context, path string, limit int64) (data []byte, state State, err error) {
	data, err = hostfile.ReadNoFollow(ctx, path, limit)
	switch {
	case err == nil:
		return data, Intact, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return nil, Absent, nil
	case errors.Is(err, hostfile.ErrNotRegular), errors.Is(err, hostfile.ErrTooLarge):
		return nil, Corrupt, err
	}
	return nil, Unreadable, err
}

// Examine reads a file. It applies no Answers: the caller must handle each State.
func (k *Kind[T]) Examine(ctx context.Context, path string) Found[T] {
	data, state, err := load(ctx, path, k.limit())
	out := Found[T]{State: state}
	if state == Intact {
		out, err = k.examine(data)
	}
	if out.State != Intact && out.State != Absent {
		out.Fault = k.fault(path, out.State, err)
	}
	return out
}

// examine decodes the data of a file. The error is the reason why the file is not intact.
func (k *Kind[T]) examine(data []byte) (out Found[T], err error) {
	content := data
	if k.Format == Line {
		content, out.Version = identity.CutSchema(data)
	}
	if k.Unsynced && len(data) == 0 {
		return Found[T]{State: Absent}, nil
	}
	out.Value, err = k.decode(content)
	if k.Format == Field {
		out.Version = fieldVersion(content, k.Field)
	}
	switch {
	case k.Format != Unversioned && out.Version > k.newest():
		out.State, err = Newer, newerError(out.Version, k.newest())
	case err != nil:
		out.State = Corrupt
	default:
		out.State = Intact
	}
	return out, err
}

func (k *Kind[T]) fault(path string, s State, err error) *Fault {
	return &Fault{Path: path, What: k.What, Scope: k.Scope, State: s, Action: k.action(s), Err: err}
}

func newerError(version, newest int) error {
	return fmt.Errorf("schema version %d, but this podrun supports only versions up to %d", version, newest)
}

// fieldVersion returns the version in a field of a JSON object; 0 if there is none. It does not read what
// follows the field, which is the first one that podrun writes.
func fieldVersion(data []byte, field string) (version int) {
	d := json.NewDecoder(bytes.NewReader(data))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return 0
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return 0
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return 0
		}
		if name == field {
			_ = json.Unmarshal(value, &version) // 0 if it is not a number
			return version
		}
	}
	return 0
}

// Read reads a file, and applies the kind's Answers. It returns the zero value if the file is absent
// or counts as absent. fault describes a file that is not intact, for a warning; it is nil if the file is
// intact or absent, or if podrun ignores its state. err is non-nil only if the operation must fail: the
// answer is Refuse, or this process lacks a resource such as file descriptors, which does not say
// anything about the file.
func (k *Kind[T]) Read(ctx context.Context, path string) (value T, fault *Fault, err error) {
	return k.Examine(ctx, path).answer()
}

// answer implements Read.
func (f Found[T]) answer() (value T, fault *Fault, err error) {
	switch {
	case f.Fault == nil:
		return f.Value, nil, nil
	case LacksResources(f.Fault) || f.Fault.Action == Refuse:
		return value, f.Fault, f.Fault
	case f.Fault.Action == Ignore:
		return value, nil, nil
	case f.Fault.Action == Partial:
		return f.Value, f.Fault, nil
	}
	return value, f.Fault, nil
}

// LacksResources reports whether an error means that this process, or the whole host, lacks a
// resource at the moment, or that the operation was interrupted. Such an error says nothing about the
// file: a later attempt may succeed.
func LacksResources(err error) bool {
	for _, transient := range []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EINTR, unix.EAGAIN, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, transient) {
			return true
		}
	}
	return false
}

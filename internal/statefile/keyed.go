package statefile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podrun/podrun/internal/identity"
)

// Keyed is a directory with one file for each object, named NAMESPACE_NAME. A file that cannot be used
// affects only its object.
type Keyed[T any] struct {
	*Kind[T]
	Dir func(identity.Layout) string
	// Check returns an error if the content does not describe this object; it may be nil.
	Check func(identity.Pod, T) error
}

// DeclareKeyed is Declare for a directory.
func DeclareKeyed[T any](s Keyed[T]) Keyed[T] {
	s.Paths = func(l identity.Layout) []string {
		ids, _ := s.IDs(l) // List reports the error
		paths := make([]string, len(ids))
		for i, id := range ids {
			paths[i] = s.Path(l, id)
		}
		return paths
	}
	validate(s.Kind)
	kinds = append(kinds, s)
	return s
}

// Record is the record of one object.
type Record[T any] struct {
	ID    identity.Pod // namespace and name
	Value T
}

// KeyedFault is the fault of an object's file. Partial contains the parts of the content that could be
// decoded.
type KeyedFault[T any] struct {
	*Fault
	ID      identity.Pod
	Partial T
}

// Path returns the path of an object's file.
func (s Keyed[T]) Path(l identity.Layout, id identity.Pod) string {
	return filepath.Join(s.Dir(l), identity.PairName(id.Namespace, id.Name))
}

// Look is Examine for the file of an object.
func (s Keyed[T]) Look(ctx context.Context, l identity.Layout, id identity.Pod) Found[T] {
	path := s.Path(l, id)
	found := s.Examine(ctx, path)
	if found.State == Intact && s.Check != nil {
		if err := s.Check(id, found.Value); err != nil {
			found.State, found.Fault = Corrupt, s.fault(path, Corrupt, err)
		}
	}
	return found
}

// Get reads the record of an object, and applies the kind's Answers as Read does. It returns nil if there
// is no record, or if it counts as absent.
func (s Keyed[T]) Get(ctx context.Context, l identity.Layout, id identity.Pod) (record *T, fault *Fault, err error) {
	found := s.Look(ctx, l, id)
	if found.State == Absent {
		return nil, nil, nil
	}
	value, fault, err := found.answer()
	if found.State == Intact || err == nil && fault != nil && fault.Action == Partial {
		return &value, fault, nil
	}
	return nil, fault, err
}

// List reads the records of a directory, sorted by namespace and name; selected may be nil. The faults are
// the files that are not intact. The error means that the directory cannot be listed, or that this process
// lacks a resource (LacksResources).
func (s Keyed[T]) List(ctx context.Context, l identity.Layout, selected func(identity.Pod) bool) (records []Record[T], faults []KeyedFault[T], err error) {
	ids, err := s.IDs(l)
	if err != nil {
		return nil, nil, err
	}
	for _, id := range ids {
		if selected != nil && !selected(id) {
			continue
		}
		found := s.Look(ctx, l, id)
		switch {
		case found.State == Intact:
			records = append(records, Record[T]{id, found.Value})
		case found.State == Absent: // removed since it was listed
		case LacksResources(found.Fault):
			return nil, nil, found.Fault
		default:
			faults = append(faults, KeyedFault[T]{Fault: found.Fault, ID: id, Partial: found.Value})
		}
	}
	return records, faults, nil
}

// IDs returns the objects that have a file, sorted by namespace and name.
func (s Keyed[T]) IDs(l identity.Layout) ([]identity.Pod, error) {
	dir := s.Dir(l)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	var out []identity.Pod
	for _, e := range entries {
		if id, ok := identity.NamedPod(e.Name()); ok && s.Path(l, id) == filepath.Join(dir, e.Name()) {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, func(a, b identity.Pod) int { return strings.Compare(a.String(), b.String()) })
	return out, nil
}

// Put writes the record of an object.
func (s Keyed[T]) Put(l identity.Layout, id identity.Pod, value T) error {
	if err := s.Write(s.Path(l, id), value); err != nil {
		return fmt.Errorf("write %s of %s: %w", s.What, id, err)
	}
	return nil
}

// Delete removes the record of an object, if there is one.
func (s Keyed[T]) Delete(l identity.Layout, id identity.Pod) error {
	if err := Remove(s.Path(l, id)); err != nil {
		return fmt.Errorf("remove %s of %s: %w", s.What, id, err)
	}
	return nil
}

func (s Keyed[T]) scan(ctx context.Context, l identity.Layout) (out []*Fault) {
	ids, _ := s.IDs(l) // List reports the error
	for _, id := range ids {
		if f := s.Look(ctx, l, id).Fault; f != nil && !LacksResources(f) {
			out = append(out, f)
		}
	}
	return out
}

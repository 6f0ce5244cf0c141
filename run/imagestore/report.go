package imagestore

import "errors"

// Report is what an operation has done, even if the operation returns an error. It has one entry for each image or
// name, in the order in which the operation acted on them.
type Report []Entry

// Entry is the outcome for one image or one of its names.
type Entry struct {
	Name    string // of the image, or its ID if it has no name; as the user wrote it if the operation failed
	ID      string // of a pulled or pruned image
	Size    uint64 // of a pulled or pruned image, in bytes
	Outcome Outcome
	Err     error
}

// Outcome names what an operation has done.
type Outcome string

// The outcomes of operations on images.
const (
	Pulled    Outcome = "pulled"
	Loaded    Outcome = "loaded"
	Saved     Outcome = "saved"
	Untagged  Outcome = "untagged" // the image has other names
	Removed   Outcome = "removed"
	DryRemove Outcome = "would be removed (dry run)"
	Failed    Outcome = "failed"
)

// Done returns the entries without an error.
func (r Report) Done() (out Report) {
	for _, e := range r {
		if e.Err == nil {
			out = append(out, e)
		}
	}
	return out
}

// Size returns the sum of the images' sizes.
func (r Report) Size() (total uint64) {
	for _, e := range r {
		total += e.Size
	}
	return total
}

// Err returns the errors of the entries, joined.
func (r Report) Err() error {
	var errs []error
	for _, e := range r {
		errs = append(errs, e.Err)
	}
	return errors.Join(errs...)
}

// named returns entries with the same outcome.
func named(names []string, outcome Outcome) (out Report) {
	for _, name := range names {
		out = append(out, Entry{Name: name, Outcome: outcome})
	}
	return out
}

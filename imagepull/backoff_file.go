package imagepull

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
)

// backOffDir stores the back-off of each pod's images in a separate file, <dir>/<uid>.json.
// Therefore, commands that are repeated contact a registry no more often than one long command. The
// file is not in the pod's directory, because podrun removes that directory if the image is not
// available.
type backOffDir struct{ dir string }

// remembered is the entry for one image in a file of a backOffDir.
type remembered struct {
	Ref    string    `json:"ref"`
	Delay  string    `json:"delay"`
	Asked  string    `json:"retryAfter,omitempty"` // the delay that the registry requested
	Failed time.Time `json:"failed"`
	why
}

func (m backOffDir) path(uid string) string { return filepath.Join(m.dir, uid+".json") }

// maxRecord is the maximum size of a file of back-offs or pull records, in bytes. Each file has one
// entry per image or Secret, so this limit is never reached in practice.
const maxRecord = 4 << 20

// read restores a pod's back-off. It ignores a file that it cannot parse; the next failure replaces
// the file.
func (m backOffDir) read(b *backOff, uid string, now time.Time) {
	data, err := hostfile.Read(context.Background(), m.path(uid), maxRecord)
	if m.dir == "" || err != nil {
		return
	}
	data, _ = identity.CutSchema(data)
	var entries []remembered
	if json.Unmarshal(data, &entries) != nil {
		return
	}
	for _, e := range entries {
		if delay, err := time.ParseDuration(e.Delay); err == nil {
			// asked is 0 if the registry requested no delay.
			asked, _ := time.ParseDuration(e.Asked)
			b.restore(backOffKey{UID: uid, Ref: e.Ref}, backOffEntry{delay, asked, e.Failed, e.why}, now)
		}
	}
}

// write stores a pod's back-off, and removes the expired files of other pods.
func (m backOffDir) write(b *backOff, uid string, now time.Time) error {
	if m.dir == "" || uid == "" {
		return nil
	}
	entries := []remembered{}
	for key, e := range b.entries {
		if key.UID == uid {
			r := remembered{Ref: key.Ref, Delay: e.delay.String(), Failed: e.failed, why: e.why}
			if e.asked > 0 {
				r.Asked = e.asked.String()
			}
			entries = append(entries, r)
		}
	}
	if len(entries) == 0 {
		return ForgetBackOff(m.dir, uid)
	}
	data, err := json.Marshal(entries)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(m.dir, 0o750); err != nil {
		return err
	}
	if err := hostfile.Write(m.path(uid), identity.AddSchema(data), 0o600); err != nil {
		return err
	}
	return m.prune(now)
}

// prune removes the files of pods whose last failure has expired.
func (m backOffDir) prune(now time.Time) error {
	files, err := os.ReadDir(m.dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil || now.Sub(info.ModTime()) <= 2*backOffMax {
			// The file has already been removed, or is still valid.
			continue
		}
		if err := os.Remove(filepath.Join(m.dir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// ReadFailures returns, by container, the reasons why containers of a pod wait for their images.
// The process that pulls the images records them in dir (its Options.BackOffDir). A missing or
// corrupt file counts as no failures.
func ReadFailures(dir, uid string, now time.Time) map[string]Failure {
	var b backOff
	backOffDir{dir}.read(&b, uid, now)
	return b.failures(uid, now)
}

// ForgetBackOff removes the back-off of a pod that a Puller has stored in dir (its
// Options.BackOffDir). It is not an error if the file does not exist. The error is the file
// system's.
func ForgetBackOff(dir, uid string) error {
	if err := os.Remove(backOffDir{dir}.path(uid)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete the image back-off: %w", err)
	}
	return nil
}

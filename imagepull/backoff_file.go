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

// memory stores the back-off of each pod's images in a separate file, <dir>/<uid>.json,
// so that a repeated command contacts a registry no more often than one long command. It
// is not in the pod's directory, which is removed if the image is not available.
type memory struct{ dir string }

// remembered is the back-off of one image in such a file.
type remembered struct {
	Ref    string    `json:"ref"`
	Delay  string    `json:"delay"`
	Asked  string    `json:"retryAfter,omitempty"` // by the registry
	Failed time.Time `json:"failed"`
	why
}

func (m memory) path(uid string) string { return filepath.Join(m.dir, uid+".json") }

// maxRecord limits a file of back-offs or records, in bytes: one entry per image or
// Secret.
const maxRecord = 4 << 20

// read takes a pod's back-off in. A file that cannot be understood counts for
// nothing: the next failure writes it again.
func (m memory) read(b *backOff, uid string, now time.Time) {
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
			asked, _ := time.ParseDuration(e.Asked) // 0 where the registry asked for nothing
			b.restore(backOffKey{UID: uid, Ref: e.Ref}, backOffEntry{delay, asked, e.Failed, e.why}, now)
		}
	}
}

// write stores a pod's back-off, and removes the files of pods that were not retried.
func (m memory) write(b *backOff, uid string, now time.Time) error {
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
func (m memory) prune(now time.Time) error {
	files, err := os.ReadDir(m.dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil || now.Sub(info.ModTime()) <= 2*backOffMax {
			continue // removed since then, or still valid
		}
		if err := os.Remove(filepath.Join(m.dir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// ReadFailures returns why containers of the pod with this UID wait for their images,
// by container, as the process that pulls has last written it to dir, its
// Options.BackOffDir. A file that is missing or corrupt is no failure.
func ReadFailures(dir, uid string, now time.Time) map[string]Failure {
	var b backOff
	memory{dir}.read(&b, uid, now)
	return b.failures(uid, now)
}

// ForgetBackOff removes the back-off of the pod with this UID that a Puller has kept
// in dir, its Options.BackOffDir. A missing file is not an error; any other error is
// of the file system.
func ForgetBackOff(dir, uid string) error {
	if err := os.Remove(memory{dir}.path(uid)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete the image back-off: %w", err)
	}
	return nil
}

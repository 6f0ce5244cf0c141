package imagepull

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/statefile"
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

// backOffFile is the file of a pod. The next failure replaces a file that podrun cannot use.
var backOffFile = statefile.Declare(statefile.Kind[[]remembered]{
	What: "the failed pulls of a pod", Files: "image-backoff/<uid>.json", Scope: statefile.OfPod,
	On: statefile.Answers{Absent: "no failures", Corrupt: statefile.Ignore, Unreadable: statefile.Ignore, Newer: statefile.Partial},
	Paths: func(l identity.Layout) []string {
		return jsonFiles(l.ImageBackOff(), ".json")
	},
	Limit: maxRecord, Mode: 0o600, DirMode: 0o750,
})

// jsonFiles lists the files of a directory whose names have this suffix.
func jsonFiles(dir, suffix string) (out []string) {
	entries, _ := os.ReadDir(dir) // the directory exists only if podrun has recorded something
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && strings.HasSuffix(e.Name(), suffix) {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out
}

// read restores a pod's back-off.
func (m backOffDir) read(b *backOff, uid string, now time.Time) {
	if m.dir == "" {
		return
	}
	entries, _, _ := backOffFile.Read(context.Background(), m.path(uid)) // without the record, podrun pulls at once
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
	if err := backOffFile.Write(m.path(uid), entries); err != nil {
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
		if err := statefile.Remove(filepath.Join(m.dir, f.Name())); err != nil {
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
	if err := statefile.Remove(backOffDir{dir}.path(uid)); err != nil {
		return fmt.Errorf("delete the image back-off: %w", err)
	}
	return nil
}

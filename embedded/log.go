package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/wait"
)

// maxLog is the maximum size of containerd's log in bytes. When the log exceeds it, TrimLog
// keeps the newest half of this size.
const maxLog = 8 << 20

// TrimLog truncates a log that exceeds maxLog. containerd continues to append to the same file,
// so lines that it writes during the truncation may be lost.
func TrimLog(l Layout) error {
	f, err := os.OpenFile(l.Log(), os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() <= maxLog || !info.Mode().IsRegular() {
		return err
	}
	kept := make([]byte, maxLog/2)
	n, err := f.ReadAt(kept, info.Size()-int64(len(kept)))
	if err != nil && err != io.EOF {
		return err
	}
	kept = kept[:n]
	_, whole, _ := strings.Cut(string(kept), "\n")
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(whole), 0)
	return err
}

func logSize(l Layout) (int64, error) {
	info, err := os.Lstat(l.Log())
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Limits of the part of a log that an error quotes.
const (
	quotedLines = 3
	quotedBytes = 2000
)

// lastWords returns the last lines of a log, or the message of a crash. It is pure.
func lastWords(log string) string {
	if title, _, crashed := crashIn(log); crashed {
		return shorten(title)
	}
	lines := strings.Split(strings.TrimSpace(log[max(0, len(log)-quotedBytes):]), "\n")
	return strings.Join(lines[max(0, len(lines)-quotedLines):], "; ")
}

// maxEnd limits the part of a log from which the end of a daemon is classified, in bytes: its
// last part has the crash, but the stacks of all goroutines follow the message.
const maxEnd = 1 << 20

// readSince returns the text that was written to the log after the log had the given size, but at
// most the last maxEnd bytes. If the log was truncated since then, readSince returns its last part.
func readSince(ctx context.Context, l Layout, from int64) string {
	size, err := logSize(l)
	if err != nil {
		return ""
	}
	if from > size {
		from = 0
	}
	data, err := hostfile.ReadTailNoFollow(ctx, l.Log(), min(size-from, maxEnd))
	if err != nil {
		return ""
	}
	return string(data)
}

// logPoll is the interval at which podrun reads a log that a user follows.
const logPoll = 200 * time.Millisecond

// CopyLog writes the last lines of containerd's log. If tail is negative, it writes all lines.
// With follow, it continues until ctx is canceled, which is not an error.
func CopyLog(ctx context.Context, l Layout, w io.Writer, tail int, follow bool) error {
	data, err := hostfile.ReadTailNoFollow(ctx, l.Log(), 2*maxLog)
	if err != nil && !(errors.Is(err, fs.ErrNotExist) && follow) {
		return fmt.Errorf("read the log: %w", err)
	}
	at := int64(0)
	if size, err := logSize(l); err == nil {
		at = max(size, int64(len(data)))
	}
	if _, err := io.WriteString(w, lastLines(string(data), tail)); err != nil || !follow {
		return err
	}
	for {
		if wait.Sleep(ctx, logPoll) != nil {
			return nil
		}
		size, err := logSize(l)
		if err != nil {
			return err
		}
		if size <= at {
			// The log was truncated. Follow has already printed the part that remains.
			at = size
			continue
		}
		if err := copyPart(l, w, at, size-at); err != nil {
			return err
		}
		at = size
	}
}

func copyPart(l Layout, w io.Writer, at, n int64) error {
	f, err := hostfile.Open(l.Log())
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, io.NewSectionReader(f, at, n))
	return err
}

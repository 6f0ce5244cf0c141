package pods

import (
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/container/podlog"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
)

// logFile is the file of --log-file. A nil logFile does nothing.
type logFile struct {
	file   *os.File
	merger *podlog.Merger
}

// openLogFile creates the file of --log-file. It returns nil if the flag is not set.
func openLogFile(name string, r *cli.Renderer) (*logFile, error) {
	if name == "" {
		return nil, nil
	}
	file, err := cli.CreateNoFollow(name)
	if err != nil {
		return nil, &problem.Error{Kind: problem.Usage, Object: "--log-file", Err: err, Hint: "specify a file in an existing directory"}
	}
	w := &lenientWriter{to: file, failed: func(err error) {
		r.Warn(problem.List{{Object: "--log-file", Message: err.Error() + "; podrun stops writing logs to this file", Warning: true}})
	}}
	return &logFile{file: file, merger: podlog.NewMerger(podlog.Output{Stdout: w, Stderr: w})}, nil
}

// output returns the writers for the log of a container; they add the prefix to each line.
func (f *logFile) output(_ run.Log, prefix string) podlog.Output {
	if f == nil {
		return podlog.Output{}
	}
	return f.merger.Output(prefix)
}

// close closes the file. It reports no error: write errors have already been reported, and
// podrun does not sync the file.
func (f *logFile) close() {
	if f != nil {
		_ = f.file.Close()
	}
}

// lenientWriter writes until the first error. It reports this error and then discards
// everything, because a full disk must not end the output of the containers on the terminal.
// Calls may be concurrent.
type lenientWriter struct {
	mu     sync.Mutex
	to     io.Writer
	failed func(error) // set to nil by the first error
}

// Write never fails.
func (w *lenientWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == nil {
		return len(p), nil
	}
	if _, err := w.to.Write(p); err != nil {
		w.failed(fmt.Errorf("write: %w", err))
		w.failed = nil
	}
	return len(p), nil
}

package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/trace"
)

// The values of --trace.
const (
	traceText = "text"
	traceJSON = "json:" // followed by the name of a file
	traceSVG  = "svg:"  // followed by the name of a file
)

// tracing is the state of --trace; the zero value records nothing.
type tracing struct {
	to       string
	command  string
	recorder *trace.Recorder
}

// StartTrace starts to record the command's steps if --trace is set.
func (a *App) StartTrace(c *cobra.Command) error {
	t := &a.tracing
	if t.to == "" {
		return nil
	}
	if format, file := t.destination(); t.to != traceText && (format == "" || file == "") {
		return grammar.Usage(c, fmt.Errorf("--trace=%s is not text, json:FILE or svg:FILE", t.to))
	}
	t.command, t.recorder = c.CommandPath(), trace.NewRecorder(a.Began)
	t.recorder.Add(trace.Phase, "start of podrun", "", time.Since(a.Began), nil)
	c.SetContext(trace.With(c.Context(), t.recorder))
	return nil
}

// destination returns the format and the file that --trace names, or two empty strings
// if the trace is printed.
func (t *tracing) destination() (format, file string) {
	for _, format := range []string{traceJSON, traceSVG} {
		if file, ok := strings.CutPrefix(t.to, format); ok {
			return format, file
		}
	}
	return "", ""
}

// observe records the calls of a client.
func (t *tracing) observe(client *cri.Client) {
	if t.recorder == nil {
		return
	}
	client.Observe(func(method string, took time.Duration, err error) {
		t.recorder.Add(trace.Call, method, "", took, err)
	})
}

// FinishTrace writes the trace to the destination of --trace. An error is only a warning,
// because the command has ended.
func (a *App) FinishTrace() {
	t := &a.tracing
	if t.recorder == nil {
		return
	}
	if err := writeTrace(a, t.recorder.Trace(t.command)); err != nil {
		(&Renderer{W: a.Streams.Err, Json: a.JSONMessages}).Warn(problem.List{{Object: "--trace", Warning: true, Message: err.Error()}})
	}
}

func writeTrace(a *App, t trace.Trace) error {
	format, file := a.tracing.destination()
	switch {
	case format == traceSVG:
		var drawing bytes.Buffer
		if err := t.WriteSVG(&drawing); err != nil {
			return err
		}
		return writeNoFollow(file, drawing.Bytes())
	case format == traceJSON:
		data, err := json.MarshalIndent(t, "", "  ")
		if err != nil {
			return err
		}
		return writeNoFollow(file, append(data, '\n'))
	case a.JSONMessages: // one of the JSON lines
		data, err := json.Marshal(map[string]trace.Trace{"trace": t})
		if err == nil {
			_, err = fmt.Fprintf(a.Raw.Err, "%s\n", view.EscapeJSON(data))
		}
		return err
	default:
		return t.WriteText(a.Streams.Err)
	}
}

// writeNoFollow writes a file without following symlinks. In a directory that other users can
// write, such as /tmp, another user may have created the name as a link to any file. It does
// follow the kernel's links to the standard streams.
func writeNoFollow(name string, data []byte) error {
	f, err := CreateNoFollow(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Close()
}

// CreateNoFollow creates or truncates a file. It does not wait for the reader of a FIFO.
func CreateNoFollow(name string) (*os.File, error) {
	flags := os.O_WRONLY | os.O_CREATE | unix.O_NONBLOCK
	if !slices.Contains([]string{"/dev", "/dev/fd", "/proc/self/fd"}, filepath.Dir(name)) {
		flags |= unix.O_NOFOLLOW
	}
	f, err := os.OpenFile(name, flags, 0o644)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("write %s: it is a symbolic link, which podrun does not follow; specify another file", name)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() {
		err = f.Truncate(0)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

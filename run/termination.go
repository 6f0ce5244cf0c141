package run

import (
	"bytes"
	"context"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/identity"
	"github.com/podrun/podrun/podlog"
)

// What counts of a termination message, and of the log that stands in for it
// (kubelet, pkg/kubelet/container/runtime.go).
const (
	terminationMessageLimit = 4096 // bytes of the file
	terminationLogLimit     = 2048 // bytes of the log
	terminationLogLines     = 80
)

// terminationMessages reads what the ended containers left to say, by ID: their
// termination logs, or, where that is empty, a container failed and its policy
// is FallbackToLogsOnError, the end of its log. A message that can't be read is
// no reason to fail.
func terminationMessages(obs *Observed) map[string]string {
	out := map[string]string{}
	for _, c := range obs.Containers {
		if c.State != Exited {
			continue
		}
		text := readTail(c.TerminationLog, terminationMessageLimit)
		if text == "" && c.ExitCode != 0 && c.Annotations[identity.AnnotationTerminationMessagePolicy] == string(corev1.TerminationMessageFallbackToLogsOnError) {
			text = logTail(c)
		}
		if text != "" {
			out[c.ID] = text
		}
	}
	return out
}

// readTail reads at most the last n bytes of a file; nothing if it can't be
// read.
func readTail(path string, n int64) string {
	if path == "" {
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	text := make([]byte, min(n, info.Size()))
	got, _ := f.ReadAt(text, max(0, info.Size()-n))
	return string(text[:got])
}

// logTail reads the end of a container's log; nothing if it can't be read.
func logTail(c Container) string {
	var text bytes.Buffer
	lines := int64(terminationLogLines)
	source := podlog.Source{Container: c.Name, Path: c.LogPath, State: string(c.State)}
	err := podlog.Stream(context.Background(), source, podlog.Output{Stdout: &text, Stderr: &text}, podlog.Options{Tail: &lines})
	if err != nil {
		return ""
	}
	tail := text.String()
	if cut := len(tail) - terminationLogLimit; cut > 0 {
		tail = strings.ToValidUTF8(tail[cut:], "")
	}
	return tail
}

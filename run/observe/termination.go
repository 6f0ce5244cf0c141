package observe

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/container/podlog"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/lifecycle"
)

// What counts of a termination message, and of the log that stands in for it
// (kubelet, pkg/kubelet/container/runtime.go).
const (
	// TerminationMessageLimit is how many bytes of the file count, from its end.
	TerminationMessageLimit = 4096
	terminationLogLimit     = 2048 // bytes of the log
	terminationLogLines     = 80
)

// TerminationMessages reads the messages of exited containers, by ID: their
// termination logs, or, where that is empty, the container failed and its policy
// is FallbackToLogsOnError, the end of its log. A message that cannot be read is
// left out.
func TerminationMessages(ctx context.Context, obs *lifecycle.Observed) map[string]string {
	out := map[string]string{}
	for _, c := range obs.Containers {
		if c.State != lifecycle.Exited {
			continue
		}
		text := readTail(ctx, c.TerminationLog)
		if text == "" && c.ExitCode != 0 && c.Annotations[identity.AnnotationTerminationMessagePolicy] == string(corev1.TerminationMessageFallbackToLogsOnError) {
			text = logTail(ctx, c)
		}
		if text != "" {
			out[c.ID] = text
		}
	}
	return out
}

// readTail reads the end of a termination log; nothing if it cannot be read.
func readTail(ctx context.Context, path string) string {
	if path == "" {
		return ""
	}
	text, err := hostfile.ReadTailNoFollow(ctx, path, TerminationMessageLimit)
	if err != nil {
		return ""
	}
	return string(text)
}

// logTail reads the end of a container's log; nothing if it cannot be read.
func logTail(ctx context.Context, c lifecycle.Container) string {
	text, err := podlog.Tail(ctx, c.LogPath, terminationLogLines, terminationLogLimit)
	if err != nil {
		return ""
	}
	return text
}

package observe

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/container/podlog"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/lifecycle"
)

// Limits for a termination message, and for the part of the log that replaces an empty message
// (kubelet, pkg/kubelet/container/runtime.go).
const (
	// TerminationMessageLimit is the maximum number of bytes that podrun reads from the end of the
	// file.
	TerminationMessageLimit = 4096
	terminationLogLimit     = 2048 // maximum number of bytes at the end of the log
	terminationLogLines     = 80
)

// TerminationMessages returns the termination messages of exited containers, by ID. If a container with
// the policy FallbackToLogsOnError failed and its message is empty, the result contains the end of the
// container's log instead. Messages that podrun cannot read are omitted.
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

// readTail reads the end of a termination log. It returns "" if the log cannot be read.
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

// logTail reads the end of a container's log. It returns "" if the log cannot be read.
func logTail(ctx context.Context, c lifecycle.Container) string {
	text, err := podlog.Tail(ctx, c.LogPath, terminationLogLines, terminationLogLimit)
	if err != nil {
		return ""
	}
	return text
}

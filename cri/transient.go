package cri

import (
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// IsTransient reports whether a call may have failed because of the runtime or of this host, and not because of its
// arguments.
func IsTransient(err error) bool {
	switch status.Code(err) {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted:
		return true
	}
	return Busy(err) || Reserved(err) || NoSandboxPID(err) || err != nil && strings.Contains(err.Error(), "no space left on device")
}

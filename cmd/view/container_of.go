package view

import (
	"strings"
)

// ContainerOf extracts app from spec.containers{app}.
func ContainerOf(fieldPath string) string {
	_, rest, ok := strings.Cut(fieldPath, "{")
	if !ok {
		return ""
	}
	return strings.TrimSuffix(rest, "}")
}

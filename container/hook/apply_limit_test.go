package hook

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestD5HookTextIsBounded checks that podrun keeps at most 10 KiB of a hook's output, and of the
// runtime's message about the hook.
func TestD5HookTextIsBounded(t *testing.T) {
	huge := []byte(strings.Repeat("漢", 1<<20))
	plan := planned(Plan{Kind: Exec, Command: []string{"sh", "-c", strings.Repeat("x", 1<<20)}})
	for name, failure := range map[string]error{"exit code": nil, "runtime": errors.New(string(huge))} {
		err := Apply(t.Context(), plan, Target{Exec: func(context.Context, string, []string) ([]byte, []byte, int32, error) {
			return huge, huge, 3, failure
		}})
		hook, ok := errors.AsType[*HookError](err)
		if !ok || len(hook.Output) > maxOutput || !utf8.ValidString(hook.Output) {
			t.Fatalf("%s: too much output (%T)", name, err)
		}
		text := err.Error()
		if len(text) > 4*maxOutput || !utf8.ValidString(text) || !strings.Contains(text, "lifecycle hook") || !strings.Contains(text, "message: ") {
			t.Errorf("%s: an error of %d bytes: %.200s", name, len(text), text)
		}
	}
}

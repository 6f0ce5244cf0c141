package start

import (
	"context"
	"errors"
	"testing"
)

func TestJoinErrors(t *testing.T) {
	volume, sandbox := errors.New("volume"), errors.New("sandbox")
	ended, end := context.WithCancelCause(t.Context())
	end(errors.New("ended by SIGINT"))
	for name, c := range map[string]struct {
		ctx             context.Context
		concurrent, err error
		want            string
	}{
		"none":                    {t.Context(), nil, nil, ""},
		"the volumes":             {t.Context(), volume, nil, "volume"},
		"the sandbox":             {t.Context(), nil, sandbox, "sandbox"},
		"both":                    {t.Context(), volume, sandbox, "volume\nsandbox"},
		"both, by the end":        {ended, volume, sandbox, "sandbox"},
		"the volumes, by the end": {ended, volume, nil, "volume"},
		"the sandbox, by the end": {ended, nil, sandbox, "sandbox"},
		"none, although it ended": {ended, nil, nil, ""},
	} {
		got := ""
		if err := joinErrors(c.ctx, c.concurrent, c.err); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

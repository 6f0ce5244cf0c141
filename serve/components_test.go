package serve

import (
	"context"
	"slices"
	"testing"
)

// TestComponentsEnd covers the end of components: the last one closes first, after all run functions have returned.
func TestComponentsEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var ended []string
	note := func(name string) func() { return func() { ended = append(ended, name) } }
	end := componentList{
		{run: func(ctx context.Context) { <-ctx.Done(); ended = append(ended, "run") }},
		{close: note("API")},
		{},
		{close: note("sources")},
	}.start(ctx)
	cancel()
	end()
	if want := []string{"run", "sources", "API"}; !slices.Equal(ended, want) {
		t.Errorf("ended %q, want %q", ended, want)
	}
}

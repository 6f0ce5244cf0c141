package trace

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRecorder(time.Now())
		ctx := With(t.Context(), r)
		end := Begin(ctx, "outer", "default/web")
		time.Sleep(2 * time.Millisecond)
		r.Add(Call, "Version", "", time.Millisecond, errors.New("no"))
		end()
		Begin(context.Background(), "of no command", "")()
		(*Recorder)(nil).Add(Phase, "of no command", "", 0, nil)
		got := r.Trace("podrun apply")
		want := []Span{{Phase, "outer", "default/web", 0, 2000, ""}, {Call, "Version", "", 1000, 1000, "no"}}
		if fmt.Sprint(got.Spans) != fmt.Sprint(want) || got.Duration != 2000 {
			t.Errorf("%+v", got)
		}
	})
}

func TestRecorderIsBounded(t *testing.T) {
	r := NewRecorder(time.Now())
	for range maxSpans + 3 {
		r.Add(Phase, "a", "", 0, nil)
	}
	if got := r.Trace(""); len(got.Spans) != maxSpans || got.Dropped != 3 {
		t.Errorf("%d spans, %d dropped", len(got.Spans), got.Dropped)
	}
}

var sample = Trace{Command: "podrun apply", Began: time.Unix(100, 0), Duration: 10_000, Spans: []Span{
	{Phase, "facts", "", 0, 5000, ""}, {Call, "Version", "", 9999, 1, "no"}, {Phase, "instant", "default/web", 20_000, 0, ""},
}}

func TestWriteText(t *testing.T) {
	var b strings.Builder
	if err := sample.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	want := "      0.00       5.00  ----------------                  facts\n" +
		"     10.00       0.00                                 =    Version (failed)\n" +
		"     20.00       0.00                                 -  instant default/web\n" +
		"     10.00             end\n"
	if _, lines, _ := strings.Cut(b.String(), "\n"); lines != want {
		t.Errorf("got:\n%swant:\n%s", lines, want)
	}
	if err := (Trace{Spans: []Span{{}}, Dropped: 2}).WriteText(&b); err != nil || !strings.Contains(b.String(), "2 more spans") {
		t.Errorf("%v:\n%s", err, b.String())
	}
}

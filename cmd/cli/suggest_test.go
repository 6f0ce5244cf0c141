package cli

import (
	"strings"
	"testing"

	"github.com/podrun/podrun/internal/identity"
)

func TestLikelyPod(t *testing.T) {
	pods := []identity.Pod{{Namespace: "default", Name: "web"}, {Namespace: "default", Name: "shop-1"}, {Namespace: "default", Name: "shop-2"}, {Namespace: "other", Name: "db"}}
	for line, want := range map[string]string{
		"exec web -- true": "", // created while the command ran
		"logs webb":        "did you mean web? 'podrun logs web'",
		"logs pod/wbe":     "did you mean web? 'podrun logs pod/web'",
		"exec we -- we":    "", // too short
		"logs shop":        "", // the names of two pods begin with it
		"logs db -f":       "the pod is in another namespace: 'podrun logs db -f -n other'",
		"exec db -- true":  "the pod is in the namespace other: add -n other",
		"logs web-7f9c-ab": "did you mean web? 'podrun logs web'",
	} {
		words := strings.Fields(line)
		a := New(Streams{})
		a.Line.Typed = words
		if got := likelyPod(a, words[1][strings.Index(words[1], "/")+1:], pods); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

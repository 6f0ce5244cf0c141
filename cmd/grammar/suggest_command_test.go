package grammar

import (
	"strings"
	"testing"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/access"
	"github.com/podrun/podrun/run/lookup"
)

func TestSuggestCommand(t *testing.T) {
	unknown := func(name string, has ...string) error {
		return &access.UnknownContainer{Asked: "container", Name: name, Has: has}
	}
	other := &lookup.OtherDefinition{Named: lookup.Ref{Kind: "Deployment", Name: "web"}, Defined: lookup.Ref{Kind: "Pod", Name: "web"}}
	const unchanged = "unchanged"
	for _, tc := range []struct {
		line string
		err  error
		want string
	}{
		{"aply -f a.yaml", &UnknownWord{Word: "aply", Path: "podrun", Like: "apply"}, "use 'podrun apply -f a.yaml'"},
		{"-n gte gte pods", &UnknownWord{Word: "frob", Path: "podrun", Like: ""}, unchanged},
		{"image lst -q", &UnknownWord{Word: "lst", Path: "podrun image", Like: "ls"}, "use 'podrun image ls -q'"},
		{"logs web -c nope", unknown("nope", "app", "migrate (init)"), "name one of its containers, for example 'podrun logs web -c app'"},
		{"logs web nope", unknown("nope", "app"), "name one of its containers, for example 'podrun logs web app'"},
		{"exec web --container=migrat -- migrat", unknown("migrat", "app", "migrate (init)"), "did you mean migrate? 'podrun exec web --container=migrate -- migrat'"},
		{"exec web -- nope", unknown("nope", "app"), unchanged}, // named by the annotation of the pod
		{"logs deploy/web", other, "a Pod defines the pod web: use 'podrun logs pod/web'"},
		{"rollout restart deployment web", other, "a Pod defines the pod web: use 'podrun rollout restart pod/web'"},
		{"exec web -- deploy/web", other, unchanged},
	} {
		typed := Line{Typed: strings.Fields(tc.line)}
		e := &problem.Error{Err: tc.err, Hint: unchanged}
		if typed.SuggestCommand(e); e.Hint != tc.want {
			t.Errorf("%s: %q, want %q", tc.line, e.Hint, tc.want)
		}
	}
}

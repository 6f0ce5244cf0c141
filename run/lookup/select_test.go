package lookup

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/observe"
)

// TestSelector checks which pods a command selects. The namespace of a stored pod may be unknown; its name
// is then its UID.
func TestSelector(t *testing.T) {
	web := identity.Pod{Namespace: "default", Name: "web", UID: "u-1"}
	unknown := identity.Pod{Name: "u-2", UID: "u-2"}
	for name, tc := range map[string]struct {
		sel          Selector
		web, unknown bool
	}{
		"all":                     {Selector{}, true, true},
		"its namespace":           {Selector{Namespace: "default"}, true, false},
		"another namespace":       {Selector{Namespace: "other"}, false, false},
		"its name":                {Selector{Namespace: "default", Names: []string{"db", "web"}}, true, false},
		"another name":            {Selector{Namespace: "default", Names: []string{"db"}}, false, false},
		"its name, any namespace": {Selector{Names: []string{"web"}}, true, false},
		"its UID":                 {Selector{UID: "u-1"}, true, false},
		"its name, another UID":   {Selector{Names: []string{"web"}, UID: "u-2"}, false, false},
		"the UID as a name":       {Selector{Namespace: "default", Names: []string{"u-2"}}, false, true},
		"the UID of a known pod":  {Selector{Namespace: "other", Names: []string{"u-1"}}, false, false},
	} {
		if got := tc.sel.Matches(web); got != tc.web {
			t.Errorf("%s: selects the pod: %v", name, got)
		}
		if got := tc.sel.Matches(unknown); got != tc.unknown {
			t.Errorf("%s: selects the pod with the unknown namespace: %v", name, got)
		}
	}
}

// TestOnePerName checks which pods get shows if an interrupted removal has left a pod of the same name. "!"
// marks pods without a checkpoint, "?" pods with a corrupt one.
func TestOnePerName(t *testing.T) {
	for pods, want := range map[string]string{
		"web/1":             "web/1",
		"web/1! web/2":      "web/2",
		"web/1 web/2!":      "web/1",
		"web/1! web/2!":     "web/1!",
		"web/1? web/2!":     "web/1?",
		"web/1 web/2":       "web/1 web/2",
		"web/1! db/1 web/2": "db/1 web/2",
	} {
		var list []observe.Known
		for _, text := range strings.Fields(pods) {
			name, uid, _ := strings.Cut(strings.TrimRight(text, "!?"), "/")
			k := observe.Known{ID: identity.Pod{Namespace: "default", Name: name, UID: uid}}
			switch {
			case strings.HasSuffix(text, "?"):
				k.Broken = errors.New("corrupt")
			case !strings.HasSuffix(text, "!"):
				k.Pod = &corev1.Pod{}
			}
			list = append(list, k)
		}
		var got []string
		for _, k := range onePerName(list) {
			mark := ""
			if k.Broken != nil {
				mark = "?"
			} else if k.Leftover() {
				mark = "!"
			}
			got = append(got, k.ID.Name+"/"+k.ID.UID+mark)
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%s: shows %s, want %s", pods, got, want)
		}
	}
}

// TestKeepNewest checks that get shows the copy of an object that was applied last, with the time at which
// the first copy was created.
func TestKeepNewest(t *testing.T) {
	at := func(n int) time.Time { return time.Date(2026, 1, 2, 3, n, 0, 0, time.UTC) }
	found := map[string]Referred{}
	for _, c := range []struct {
		value            string
		applied, created int
	}{{"second", 20, 5}, {"third", 30, 25}, {"first", 10, 10}} {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}, Data: map[string]string{"k": c.value}}
		keepNewest(found, "ConfigMap", Referred{Object: object, applied: at(c.applied)}, metav1.NewTime(at(c.created)))
	}
	got := found["ConfigMap default/c"]
	if len(found) != 1 || got.Object.(*corev1.ConfigMap).Data["k"] != "third" || !got.Object.GetCreationTimestamp().Time.Equal(at(5)) {
		t.Errorf("%+v", found)
	}
}

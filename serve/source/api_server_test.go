package source

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/manifest"
)

func fromAPI(name, uid string) Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(uid)}}
	return Pod{Pod: manifest.Pod{Object: p}, Path: APIServerPath(identity.Pod{Namespace: "default", Name: name}),
		Referred: &manifest.Objects{ConfigMaps: map[string]*corev1.ConfigMap{"default/web": {Data: map[string]string{"from": "api"}}}}}
}

// TestWithAPIServer checks that files have precedence, and that a pod of an API server refers to the
// objects of the API server.
func TestWithAPIServer(t *testing.T) {
	s := snapshot(t, [3]string{"/a/x.yaml", "Good", pod("web", "a") + "---\n" + configMap("web", "1")})
	got, want, refused := WithAPIServer(s, Merge(s), &APIServer{}, []Pod{fromAPI("web", "u1"), fromAPI("db", "u2")})
	if len(want.Pods) != 2 || want.Pods[1].Key() != "default/db" || refused["API server/default/web"] != "/a/x.yaml" || len(refused) != 1 {
		t.Errorf("pods %v, refused %v", want.Pods, refused)
	}
	if m := want.Objects(1).ConfigMaps["default/web"]; m == nil || m.Data["from"] != "api" {
		t.Errorf("the pod of the API server refers to %v", m)
	}
	if m := want.Objects(0).ConfigMaps["default/web"]; m == nil || m.Data["from"] != "" {
		t.Errorf("the pod of the file refers to %v", m)
	}
	if may, _ := got.MayDefine("API server/default/gone"); may {
		t.Error("a pod that the API server does not have may be defined")
	}
}

// TestAPIServerMayDefine checks that no pod counts as removed because the API server does not answer.
func TestAPIServerMayDefine(t *testing.T) {
	const path = "API server/default/web"
	for name, c := range map[string]struct {
		api  *APIServer
		want bool
	}{
		"another podrun": {nil, true},
		"no answer":      {&APIServer{Why: "it does not answer"}, true},
		"undecided":      {&APIServer{Undecided: map[string]string{path: "a Secret is unknown"}}, true},
		"gone":           {&APIServer{}, false},
	} {
		if may, why := (&Snapshot{API: c.api}).MayDefine(path); may != c.want || may != (why != "") {
			t.Errorf("%s: %v %q", name, may, why)
		}
	}
}

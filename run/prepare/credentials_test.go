package prepare

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/credential"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/manifest"
)

// TestCheckCredentials checks which credentials of the host a pod may use if its author is not trusted.
func TestCheckCredentials(t *testing.T) {
	for name, c := range map[string]struct {
		level, credential string
		refused           bool
		user              *host.User
	}{
		"trusted":             {"privileged", "ssh-host-key", false, nil},
		"no level":            {"", "ssh-host-key", false, nil},
		"of the host":         {"baseline", "ssh-host-key", true, nil},
		"of the namespace":    {"restricted", "podrun.shop.db", false, nil},
		"of another":          {"restricted", "podrun.other.db", true, nil},
		"of a longer name":    {"baseline", "podrun.shopping.db", true, nil},
		"without a namespace": {"baseline", "podrun.db", true, nil},
		"an ordinary user":    {"", "podrun.shop.db", true, &host.User{Name: "ann"}},
	} {
		p := &Plan{Facts: host.Facts{User: c.user}, ID: identity.Pod{Namespace: "shop", Name: "web"}, Checkpoint: manifest.Checkpoint{Secrets: []*corev1.Secret{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", Annotations: map[string]string{credential.Annotation + "password": c.credential}}}}}}
		if got := p.checkCredentials(c.level); (len(got) == 1 && !got[0].Warning) != c.refused || len(got) > 1 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestCredentialChange checks that another credential is a change of the Secret.
func TestCredentialChange(t *testing.T) {
	of := func(name string) manifest.Checkpoint {
		return manifest.Checkpoint{Secrets: []*corev1.Secret{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", Annotations: map[string]string{credential.Annotation + "password": name}}}}}
	}
	if live, _, _ := of("a").Diff(of("b")); len(live) != 1 {
		t.Errorf("changes %v", live)
	}
	if live, _, _ := of("a").Diff(of("a")); len(live) != 0 {
		t.Errorf("changes %v", live)
	}
}

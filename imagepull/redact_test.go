package imagepull

import (
	"encoding/base64"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/imagepull/auth"
)

// TestPullErrorEchoesNoCredentials checks the error if a registry returns the credentials that it
// received, in any form, and with any amount of text.
func TestPullErrorEchoesNoCredentials(t *testing.T) {
	login := &runtimeapi.AuthConfig{Username: "bob", Password: "p&s s"}
	header := base64.StdEncoding.EncodeToString([]byte("bob:p&s s"))
	tried := []auth.Credential{{Auth: login}, {Auth: &runtimeapi.AuthConfig{RegistryToken: "registrytoken"}}, {}}
	for _, echo := range []string{"p&s s", header, "Basic " + header, url.QueryEscape("p&s s"), "registrytoken"} {
		err := withoutCredentials(status.Error(codes.Unauthenticated, "denied \x1b[2J "+echo+", sent"), tried)
		if text := err.Error(); strings.Contains(text, echo) || !strings.Contains(text, "***, sent") || status.Code(err) != codes.Unauthenticated {
			t.Errorf("%q became %q", echo, text)
		}
	}
	// The truncated text must not end with the beginning of a secret.
	long := strings.Repeat("漢", 1<<20) + header
	for _, before := range []int{0, maxDetail - len(header)/2, 1 << 20} {
		err := withoutCredentials(status.Error(codes.Unknown, strings.Repeat("x", before)+header+long), tried)
		if text := Detail(err); len(text) > maxDetail || !utf8.ValidString(text) || strings.Contains(text, header[:4]) || status.Code(err) != codes.Unknown {
			t.Errorf("%d: %d bytes", before, len(text))
		}
	}
}

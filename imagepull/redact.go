package imagepull

import (
	"encoding/base64"
	"net/url"
	"strings"

	"google.golang.org/grpc/status"

	"github.com/podrun/podrun/imagepull/auth"
	"github.com/podrun/podrun/internal/event"
)

// These expressions match credentials. A registry's error may quote the URL that failed, with a
// password or a signed query.
var (
	userinfo = expression(`(://)[^/@\s"']+@`)
	secret   = expression(`(?i)([?&](?:[a-z0-9_-]*(?:token|signature|credential|secret|password|sig|key)[a-z0-9_-]*)=)[^&\s"']+`)
	bearer   = expression(`(?i)\b((?:bearer|basic)\s+)[a-z0-9+/._~-]{16,}=*`)
)

// redact replaces credentials in a runtime's text by "***": passwords in URLs, signed queries
// and authorization headers.
func redact(text string) string {
	text = userinfo().ReplaceAllString(text, "${1}***@")
	text = secret().ReplaceAllString(text, "${1}***")
	return bearer().ReplaceAllString(text, "${1}***")
}

// shortestSecret is the minimum length of a credential that podrun removes from a text. A
// shorter one may occur in any text by chance.
const shortestSecret = 4

// maxDetail is the maximum number of bytes of a runtime's text about a pull that podrun keeps,
// because the text may quote the registry's response.
const maxDetail = 10 << 10

// withoutCredentials removes the credentials that podrun used for a pull from the pull's error. It
// removes every form in which the registry received them and may return them. It also limits the
// length of the text.
func withoutCredentials(err error, tried []auth.Credential) error {
	text := Detail(err)
	clean := text
	for _, c := range tried {
		secrets := []string{c.Auth.GetPassword(), c.Auth.GetIdentityToken(), c.Auth.GetRegistryToken(), c.Auth.GetAuth()}
		if password := c.Auth.GetPassword(); password != "" {
			secrets = append(secrets, base64.StdEncoding.EncodeToString([]byte(c.Auth.GetUsername()+":"+password)))
		}
		for _, secret := range secrets {
			if len(secret) >= shortestSecret {
				clean = strings.NewReplacer(secret, "***", url.QueryEscape(secret), "***").Replace(clean)
			}
		}
	}
	clean = event.CutBytes(clean, maxDetail)
	if clean == text {
		return err
	}
	return status.Error(status.Code(err), clean)
}

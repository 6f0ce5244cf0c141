package imagepull

import (
	"encoding/base64"
	"net/url"
	"strings"

	"google.golang.org/grpc/status"

	"github.com/podrun/podrun/imagepull/auth"
	"github.com/podrun/podrun/internal/event"
)

// A registry's error may quote the URL that failed, with a password or a signed
// query in it.
var (
	userinfo = expression(`(://)[^/@\s"']+@`)
	secret   = expression(`(?i)([?&](?:[a-z0-9_-]*(?:token|signature|credential|secret|password|sig|key)[a-z0-9_-]*)=)[^&\s"']+`)
	bearer   = expression(`(?i)\b((?:bearer|basic)\s+)[a-z0-9+/._~-]{16,}=*`)
)

// redact replaces credentials in a runtime's text (passwords in URLs, signed queries,
// authorization headers) by "***".
func redact(text string) string {
	text = userinfo().ReplaceAllString(text, "${1}***@")
	text = secret().ReplaceAllString(text, "${1}***")
	return bearer().ReplaceAllString(text, "${1}***")
}

// shortestSecret is how long a credential is at least that is looked for in a
// text: a shorter one would be found in any.
const shortestSecret = 4

// maxDetail is how much is kept of a runtime's text about a pull, in bytes: it
// quotes the registry's answer.
const maxDetail = 10 << 10

// withoutCredentials takes the credentials that a pull was tried with out of its
// error, in the forms in which a registry gets them and may send them back, and
// bounds its text.
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

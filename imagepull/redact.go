package imagepull

// A registry's error may quote the URL that failed, with a password or a signed
// query in it.
var (
	userinfo = expression(`(://)[^/@\s"']+@`)
	secret   = expression(`(?i)([?&](?:[a-z0-9_-]*(?:token|signature|credential|secret|password|sig|key)[a-z0-9_-]*)=)[^&\s"']+`)
	bearer   = expression(`(?i)\b((?:bearer|basic)\s+)[a-z0-9+/._~-]{16,}=*`)
)

// Redact takes credentials out of a runtime's text.
func Redact(text string) string {
	text = userinfo().ReplaceAllString(text, "${1}***@")
	text = secret().ReplaceAllString(text, "${1}***")
	return bearer().ReplaceAllString(text, "${1}***")
}

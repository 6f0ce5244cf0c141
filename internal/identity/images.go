package identity

import "strings"

// reservedDomain is the domain in the names of images that podrun itself provides. No registry can
// have such a name (RFC 2606).
const reservedDomain = "podrun.invalid"

// ReservedImage reports whether the name of an image is reserved for podrun. Users cannot load or
// pull an image with such a name.
func ReservedImage(name string) bool {
	host, _, hasPath := strings.Cut(strings.ToLower(name), "/")
	host, _, _ = strings.Cut(host, ":")
	host = strings.TrimSuffix(host, ".")
	return hasPath && (host == reservedDomain || strings.HasSuffix(host, "."+reservedDomain))
}

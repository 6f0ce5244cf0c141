package imagepull

import (
	"regexp"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Class is the category of a failed pull. It determines the hint, and whether podrun retries
// the pull.
type Class string

// These are the classes. Only the text of an error distinguishes them, because runtimes return
// nearly all failures with gRPC code Unknown.
const (
	NotFound     Class = "NotFound"     // no such repository, tag or digest exists
	Unauthorized Class = "Unauthorized" // no credentials, or wrong credentials
	InvalidName  Class = "InvalidName"  // the runtime cannot parse the name
	NoPlatform   Class = "NoPlatform"   // the image is not for this host's architecture
	Unavailable  Class = "Unavailable"  // the registry cannot be reached, or reports an internal error
	NoHost       Class = "NoHost"       // the name of the registry does not resolve
	NotRegistry  Class = "NotRegistry"  // the server that responds is not a registry, but for example a web server
	Signature    Class = "Signature"    // the runtime's policy rejects the image
	Transient    Class = "Transient"    // anything else
	// BadCredentials means that the user's credentials could not be read. Classify never returns
	// it.
	BadCredentials Class = "BadCredentials"
	// Overdue means that --pull-timeout expired for one image. Classify never returns it.
	Overdue Class = "Overdue"
	// Disconnected means that the connection to the runtime broke during the call.
	Disconnected Class = "Disconnected"
	// Stalled means that no data arrived for too long. Classify never returns it.
	Stalled Class = "Stalled"
	// TooLarge means that the registry sent more data than the manifest declares. Classify never
	// returns it.
	TooLarge Class = "TooLarge"
)

// Fatal reports whether the error is permanent: a retry would fail again.
func (c Class) Fatal() bool {
	switch c {
	case NotFound, Unauthorized, InvalidName, NoPlatform, NotRegistry, Signature, BadCredentials:
		return true
	}
	return false
}

// These are the reasons why containers wait for their image, as in the API's status.
const (
	ReasonPull        = "ErrImagePull"
	ReasonBackOff     = "ImagePullBackOff"
	ReasonNeverPull   = "ErrImageNeverPull"
	ReasonInvalidName = "InvalidImageName"
	ReasonInspect     = "ImageInspectError"
	ReasonUnavailable = "RegistryUnavailable"
	ReasonSignature   = "SignatureValidationFailed"
)

// texts maps error texts of containerd and CRI-O to classes. The first row that matches
// applies. The more reliable rows come first. For example, the error for a web page instead of
// a registry may contain "not found", and so may the error for a rejected token.
// testdata/pull-errors.tsv contains real errors of the runtimes.
var texts = []struct {
	class Class
	text  func() *regexp.Regexp
}{
	{Signature, words(`^SignatureValidationFailed`, `source image rejected`, `image verifier \S+ blocked pull`, `image verifier \S+ returned error`)},
	{NoHost, words(`no such host`)},
	{Unavailable, words(`^RegistryUnavailable`)},
	{InvalidName, words(`invalid reference format`, `failed to parse image reference`, `repository name must have at least one component`, `: name invalid$`)},
	{NoPlatform, words(`no match for platform in manifest`, `no image found in (?:manifest list|image index) for architecture`)},
	{NotRegistry, words(`unexpected media type text/`, `invalid character '<'`, `pinging container registry \S+: statuscode: 404`)},
	// This row is first, because a registry may report a rate limit with a status that normally
	// means a refusal.
	{Transient, words(`toomanyrequests`, `429 too many requests`, `statuscode: 429`)},
	{Unauthorized, words(`401 \(?unauthorized`, `403 \(?forbidden`, `authorization failed`, `pull access denied`,
		`requested access to the resource is denied`, `denied: denied`, `unauthorized: `, `authentication required`,
		`no basic auth credentials`, `invalid username/password`, `statuscode: 40[13]`, `: denied(?:: |$)`, `: unauthorized$`)},
	{Unavailable, words(`connection refused`, `connection reset by peer`, `i/o timeout`, `tls handshake timeout`,
		`network is unreachable`, `no route to host`, `server misbehaving`, `temporary failure in name resolution`,
		`x509: `, `server gave http response to https client`, `: 50[0234] `, `registry 50[0234] `)},
	{NotFound, words(`manifest unknown`, `name unknown`, `blob unknown`, `404 not found`, `statuscode: 404`, `: not found$`)},
}

// disconnected matches the errors that the gRPC client returns when its connection breaks (package
// internal/transport of google.golang.org/grpc). It does not match errors of the runtime.
var disconnected = words(`^error reading from server`, `^connection error: desc = `, `^transport is closing`, `^closing transport`, `^the connection is draining`)

// quoted matches a name, a URL or a response body that a runtime quotes. Classify removes these
// before it matches texts, because an image may have any name.
var quoted = expression(`"(?:[^"\\]|\\.)*"`)

// words returns an expression that matches any of the alternatives, regardless of case.
func words(alternatives ...string) func() *regexp.Regexp {
	return expression(`(?i)` + strings.Join(alternatives, "|"))
}

// expression compiles a regular expression when it is first used. Only failures require these
// expressions, and compiling them at startup would delay every command.
func expression(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// Classify returns the class of an error of PullImage. It looks at the text of the runtime's error
// first. If no text matches, it looks at the gRPC code, because containerd and CRI-O return nearly
// all failures with code Unknown. It returns Transient for an unknown error and "" for nil.
func Classify(err error) Class {
	if err == nil {
		return ""
	}
	if status.Code(err) == codes.Unavailable && disconnected().MatchString(Detail(err)) {
		return Disconnected
	}
	message := quoted().ReplaceAllString(Detail(err), `""`)
	for _, row := range texts {
		if row.text().MatchString(message) {
			return row.class
		}
	}
	switch status.Code(err) {
	case codes.NotFound:
		return NotFound
	case codes.Unauthenticated, codes.PermissionDenied:
		return Unauthorized
	case codes.InvalidArgument:
		return InvalidName
	case codes.Unavailable:
		return Unavailable
	}
	return Transient
}

// Detail returns the message of a gRPC error without gRPC's wrapping, or the text of any
// other error. err must not be nil. The text may contain credentials.
func Detail(err error) string {
	if s, ok := status.FromError(err); ok {
		return s.Message()
	}
	return err.Error()
}

// reasonOf returns the reason why a container waits if its pull failed with err. The reason is
// ErrImagePull, unless the runtime returns one of CRI's own reasons (k8s.io/cri-api/pkg/errors).
func reasonOf(err error) string {
	message := Detail(err)
	for _, reason := range []string{ReasonUnavailable, ReasonSignature} {
		if strings.HasPrefix(message, reason) {
			return reason
		}
	}
	return ReasonPull
}

// Hint returns a text that explains how the user can fix the failure. It is never empty.
func (c Class) Hint() string {
	switch c {
	case NotFound:
		return "check the image's name and tag; a registry may also report a private image as not found"
	case Unauthorized:
		return "the registry requires other credentials: set imagePullSecrets, or log in on this host"
	case InvalidName:
		return "use [registry[:port]/]name[:tag][@digest], in lower case except for the tag"
	case NoPlatform:
		return "the image does not support this host's architecture: use another tag, or build it for this architecture"
	case Unavailable:
		return "check that the registry is running, and that this host can reach it and trusts its certificate; or load the image from a file with 'podrun image load FILE'"
	case NoHost:
		return "check the registry in the image's name, and this host's DNS; or load the image from a file with 'podrun image load FILE'"
	case NotRegistry:
		return "the server is not a registry: check the host and port in the image's name"
	case Disconnected:
		return "check that the container runtime is running ('podrun doctor'), then run the command again"
	case TooLarge:
		return "check the registry, or the proxy in front of it: it does not serve the image that the manifest describes"
	case Stalled:
		return "check the network connection to the registry, or increase --pull-stall-timeout"
	case Overdue:
		return "increase --pull-timeout"
	case BadCredentials:
		return "check the file, or create it with 'kubectl create secret docker-registry' or 'docker login'"
	case Signature:
		return "sign the image, or change the runtime's policy"
	}
	return "see the runtime's log, then run the command again"
}

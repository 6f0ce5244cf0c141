package imagepull

import (
	"errors"
	"strings"
)

// brief formats a PullError for messages that already name the image. It omits the names and the
// surrounding text that runtimes repeat. Events and statuses contain the whole text, as the
// kubelet's do.
type brief struct{ *PullError }

// Error returns "reason: cause".
func (b brief) Error() string {
	if b.Reason == ReasonNeverPull {
		return b.Reason + ": the image is not present, and its pull policy is Never"
	}
	short := *b.PullError
	if short.Err != nil {
		short.Err = errors.New(asImage().ReplaceAllString(Detail(short.Err), "$1"))
	}
	return withoutName(short.Error(), b.Image)
}

// Unwrap returns the PullError.
func (b brief) Unwrap() error { return b.PullError }

var (
	// wrapping matches the text with the image's name that runtimes put before the cause.
	wrapping = expression(`(?i)(?:failed to (?:pull and unpack image|pull image|resolve (?:reference|image)|parse image reference) "[^"]*"|` +
		`image verifier bindir blocked pull of \S+ with digest \S+ for reason: verifier podrun-image-verifier rejected image \(exit code 1\)|` +
		`initializing source docker://\S+|(?:error )?reading manifest \S+ in \S+): `)
	// wrapped matches the image names in the text that wrapping matches.
	wrapped = expression(`(?:"([^"]*)"|docker://(\S+)): `)
)

// asImage matches the text that CRI-O adds to the error of a pull because the image may be
// an OCI artifact (internal/storage/image.go, pullImageImplementation).
var asImage = expression(`unable to pull image(?: or OCI artifact: pull image err)?: ((?s:.*?))(?:; artifact err: (?s:.*))?$`)

// withoutName removes the image's name from a runtime's error. It removes all forms of the
// name, and the words around them.
func withoutName(text, image string) string {
	names := []string{image}
	clean := wrapping().ReplaceAllStringFunc(text, func(s string) string {
		if m := wrapped().FindStringSubmatch(s); m != nil {
			names = append(names, m[1]+m[2])
		}
		return ""
	})
	for _, name := range names {
		if name != "" {
			clean = strings.NewReplacer(" for "+name+" ", " ", " "+name+": ", " ").Replace(clean)
		}
	}
	if clean == "" {
		return text
	}
	return clean
}

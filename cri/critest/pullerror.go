package critest

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// These are causes of a failed pull: the registry cannot be reached, or the image is for another
// architecture. The profile determines the text of the error.
var (
	ErrRefused    = errors.New(`failed to do request: Head "http://127.0.0.1:5000/v2/app/manifests/latest": dial tcp 127.0.0.1:5000: connect: connection refused`)
	ErrNoPlatform = errors.New("no match for platform in manifest: not found")
)

// badName returns the error for a name that the runtime cannot parse.
func (p Profile) badName(ref string, err error) error {
	if p.crio() {
		return status.Errorf(codes.Unknown, "short-name %q is invalid: %v", ref, err)
	}
	return status.Errorf(codes.Unknown, "failed to parse image reference %q: %v", ref, err)
}

// missing returns the error for an image that its registry does not have.
func (p Profile) missing(name string) error {
	if p.crio() {
		repository, tag := split(name)
		return noManifest(name, fmt.Sprintf("reading manifest %s in %s: manifest unknown", tag, repository))
	}
	return unresolved(codes.NotFound, name, name+": not found")
}

// denied returns the error for wrong or missing credentials.
func (p Profile) denied(name string) error {
	if p.crio() {
		repository, tag := split(name)
		return noManifest(name, fmt.Sprintf("reading manifest %s in %s: authentication required", tag, repository))
	}
	return unresolved(codes.Unknown, name, "pull access denied, repository does not exist or may require authorization: "+
		"server message: insufficient_scope: authorization failed")
}

// unpulled returns the error for an image that cannot be pulled. The argument why is the cause
// that a test has set.
func (p Profile) unpulled(name string, why error) error {
	switch {
	case !p.crio():
		return unresolved(codes.Unknown, name, why.Error())
	case errors.Is(why, ErrNoPlatform):
		return artifactError("choosing an image from manifest list docker://"+name+": "+noPlatform, "choose manifest instance: "+noPlatform)
	case errors.Is(why, ErrRefused):
		host, _, _ := strings.Cut(name, "/")
		return status.Errorf(codes.Unknown, "RegistryUnavailable: unable to pull image: initializing source docker://%s: pinging container registry %s: Get %q: dial tcp %s: connect: connection refused",
			name, host, "https://"+host+"/v2/", host)
	}
	return status.Error(codes.Unknown, fmt.Sprintf("unable to pull image: initializing source docker://%s: %v", name, why))
}

// noPlatform is CRI-O's reason for ErrNoPlatform.
var noPlatform = fmt.Sprintf("no image found in image index for architecture %q, variant %q, OS %q", runtime.GOARCH, "", "linux")

// noManifest is CRI-O's error if a registry does not return a manifest.
func noManifest(name, why string) error {
	return artifactError("initializing source docker://"+name+": "+why, "get manifest from ref: create image source: "+why)
}

// artifactError is CRI-O's error for an object that is neither an image nor an OCI
// artifact.
func artifactError(image, artifact string) error {
	return status.Errorf(codes.Unknown, "unable to pull image or OCI artifact: pull image err: %s; artifact err: image reference: %s", image, artifact)
}

func unresolved(code codes.Code, name, why string) error {
	return status.Errorf(code, "failed to pull and unpack image %q: failed to resolve reference %q: %s", name, name, why)
}

// split divides a name into its repository and its tag or digest.
func split(name string) (repository, tag string) {
	if repository, tag, ok := strings.Cut(name, "@"); ok {
		return repository, tag
	}
	at := strings.LastIndex(name, ":")
	return name[:at], name[at+1:]
}

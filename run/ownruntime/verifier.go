package ownruntime

import (
	"context"
	"io"
	"os"

	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/imagepull/verifier"
	"github.com/podrun/podrun/internal/problem"
)

// verifiesImages reports whether the settings permit only verified images.
func (r *Runtime) verifiesImages() bool {
	return r.settings.ImagePolicy == nodeconfig.ImagePolicyVerified
}

// installVerifier makes podrun the image verifier of containerd, if the settings require one. It does so at each start,
// because containerd accepts all images if its directory is empty, and because podrun may have been moved.
func (r *Runtime) installVerifier() error {
	if !r.verifiesImages() {
		return nil
	}
	program, err := os.Executable()
	if err == nil {
		err = verifier.Install(r.layout.Verifier(), program, r.settings.ImageVerifiers())
	}
	if err != nil {
		return &problem.Error{Kind: problem.Runtime, Object: "embedded runtime", Op: "install the image verifier", Err: err}
	}
	return nil
}

// IsImageVerifier reports whether containerd has run this process, with these arguments, as its image verifier.
func IsImageVerifier(args []string) bool { return verifier.Invoked(args) }

// VerifyImage is the main function of that process (verifier.Main).
func VerifyImage(ctx context.Context, args []string, in io.Reader, out io.Writer) int {
	return verifier.Main(ctx, args, in, out)
}

// policyDiffers reports whether containerd was started with another setting of imagePolicy.
func policyDiffers(ctx context.Context, r *Runtime) bool {
	verifies, err := embedded.VerifiesImages(ctx, r.layout)
	return err == nil && verifies != r.verifiesImages()
}

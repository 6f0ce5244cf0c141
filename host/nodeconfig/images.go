package nodeconfig

import (
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
	kubelet "k8s.io/kubelet/config/v1beta1"
)

// gateSecretPulled is the feature gate of KEP-2535.
const gateSecretPulled = "KubeletEnsureSecretPulledImages"

// verifications are the values of imagePullCredentialsVerificationPolicy.
var verifications = []kubelet.ImagePullCredentialsVerificationPolicy{
	kubelet.NeverVerify, kubelet.NeverVerifyPreloadedImages, kubelet.NeverVerifyAllowlistedImages, kubelet.AlwaysVerify,
}

// checkVerification checks the settings that determine which pods may use images that are already
// present (KEP-2535).
func (f *file) checkVerification(kc *kubelet.KubeletConfiguration) {
	const field, allowlist = "imagePullCredentialsVerificationPolicy", "preloadedImagesVerificationAllowlist"
	policy := kc.ImagePullCredentialsVerificationPolicy
	if on, said := kc.FeatureGates[gateSecretPulled]; said && !on {
		if policy != "" {
			f.invalid(field, "must not be set while the feature gate "+gateSecretPulled+" is off", "")
		}
		if len(kc.PreloadedImagesVerificationAllowlist) > 0 {
			f.invalid(allowlist, "must not be set while the feature gate "+gateSecretPulled+" is off", "")
		}
		return
	}
	if policy != "" && !slices.Contains(verifications, policy) {
		f.invalid(field, fmt.Sprintf("%q is not a policy", policy), "NeverVerify, NeverVerifyPreloadedImages, NeverVerifyAllowlistedImages or AlwaysVerify")
	}
	if len(kc.PreloadedImagesVerificationAllowlist) > 0 && policy != kubelet.NeverVerifyAllowlistedImages {
		f.invalid(allowlist, "must not be set unless "+field+" is NeverVerifyAllowlistedImages", "")
		return
	}
	for i, pattern := range kc.PreloadedImagesVerificationAllowlist {
		if !validPattern(pattern) {
			f.invalid(fmt.Sprintf("%s[%d]", allowlist, i), fmt.Sprintf("%q is neither an image name without tag and digest nor a prefix that ends in /*", pattern), "such as registry.example/team/*")
		}
	}
}

// validPattern reports whether a pattern of the allowlist is valid.
func validPattern(pattern string) bool {
	if prefix, wild := strings.CutSuffix(pattern, "/*"); wild {
		return prefix != "" && strings.TrimSpace(pattern) == pattern && !strings.Contains(prefix, "*")
	}
	parsed, err := reference.Parse(pattern)
	if err != nil {
		return false
	}
	named, ok := parsed.(reference.Named)
	return ok && reference.IsNameOnly(named)
}

//go:build podrun_sbom && podrun_bundle

package sbom

import _ "embed" // The embedded document is written by hack/sbom.

//go:embed podrun-bundle_arm64.spdx.json
var document string

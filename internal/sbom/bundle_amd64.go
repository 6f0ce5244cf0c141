//go:build podrun_sbom && podrun_bundle

package sbom

import _ "embed" // what hack/sbom wrote

//go:embed podrun-bundle_amd64.spdx.json
var document string

//go:build podrun_sbom && !podrun_bundle

package sbom

import _ "embed" // what hack/sbom wrote

//go:embed podrun_arm64.spdx.json
var document string

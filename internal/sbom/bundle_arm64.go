//go:build podrun_sbom && podrun_bundle

package sbom

import _ "embed" // This embeds the document that hack/sbom writes.

//go:embed podrun-bundle_arm64.spdx.json
var document string

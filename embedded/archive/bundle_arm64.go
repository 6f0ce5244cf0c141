//go:build podrun_bundle

package archive

import _ "embed" // for the files that make bundle writes

//go:embed runtime_arm64.tar.zst
var data string

//go:embed runtime_arm64.sum
var sum string

//go:build podrun_bundle

package archive

// This embeds the files that make bundle writes.
import _ "embed"

//go:embed runtime_arm64.tar.zst
var data string

//go:embed runtime_arm64.sum
var sum string

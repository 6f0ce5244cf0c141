//go:build podrun_bundle

package archive

import _ "embed" // what make bundle wrote

//go:embed runtime_amd64.tar.zst
var data string

//go:embed runtime_amd64.sum
var sum string

//go:build !podrun_bundle

package archive

// Open gives the archive that this build carries; false in an ordinary build,
// which has none, nor the code that decompresses one.
func Open() (Archive, bool) { return Archive{}, false }

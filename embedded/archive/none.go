//go:build !podrun_bundle

package archive

// Open returns false, because this build has neither an archive nor the code to decompress one.
func Open() (Archive, bool) { return Archive{}, false }

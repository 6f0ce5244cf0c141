// Package input reads manifests: files, directories, standard input, https URLs and kustomizations.
package input

// Source is the content of one file, of standard input or of a URL. Name is the source's name
// in problems; "-" is standard input.
type Source struct {
	Name string
	Data []byte
}

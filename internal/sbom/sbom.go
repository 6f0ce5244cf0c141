// Package sbom embeds podrun's software bill of materials. make build generates it (hack/sbom)
// before it builds podrun. Other builds, such as go install, contain no such document.
package sbom

// Document returns the document as SPDX 2.3 JSON. It returns "" if this build of podrun contains no
// document.
func Document() string { return document }

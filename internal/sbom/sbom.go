// Package sbom embeds podrun's software bill of materials, which make build generates
// (hack/sbom) before it builds podrun. Other builds, such as go install, contain none.
package sbom

// Document returns the document as SPDX 2.3 JSON, or "" if the build contains none.
func Document() string { return document }

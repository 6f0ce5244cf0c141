// Package sbom embeds the software bill of materials of podrun, which make build writes
// (hack/sbom) before it builds. Other builds, such as those of go install, have none.
package sbom

// Document returns the document, SPDX 2.3 as JSON, or "" in a build without one.
func Document() string { return document }

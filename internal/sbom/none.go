//go:build !podrun_sbom

package sbom

const document = ""

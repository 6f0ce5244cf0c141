// Package fielddoc documents the fields of the kinds that podrun reads, like kubectl explain. It
// also documents how podrun supports them. The package does no I/O except through the given writer.
//
// The documentation is in the API's Go types, which contain it for the API server (method
// SwaggerDoc). How podrun supports the fields of a Pod is in the table of docs/pod-fields.md.
package fielddoc

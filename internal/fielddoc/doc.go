// Package fielddoc documents the fields of the kinds that podrun reads, as kubectl
// explain does, and podrun's support for them. It is pure.
//
// The documentation comes from the API's Go types, which contain it for the API server
// (their methods SwaggerDoc); podrun's support for the fields of a Pod is the table of
// docs/pod-fields.md.
package fielddoc

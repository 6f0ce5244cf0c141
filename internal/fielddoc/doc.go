// Package fielddoc documents the fields of the kinds that podrun reads, like kubectl
// explain, and podrun's support for them. It is pure.
//
// The documentation comes from the API's Go types, which contain it for the API server
// (method SwaggerDoc). podrun's support for the fields of a Pod comes from the table of
// docs/pod-fields.md.
package fielddoc

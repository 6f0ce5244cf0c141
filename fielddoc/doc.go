// Package fielddoc documents the fields of the kinds that podrun reads, as kubectl
// explain does, and says what podrun does with them. All of it is pure.
//
// The documentation is that of the API's Go types, which carry it for the API server
// (their methods SwaggerDoc); what podrun does with the fields of a Pod is the table of
// docs/pod-fields.md.
package fielddoc

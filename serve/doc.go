// Package serve implements podrun serve: it connects the supervisor of pods
// (serve/supervisor) to the manifest sources that define them (serve/source) and to the
// HTTP API that shows them (serve/nodeapi). It also contains the client of that API, for
// the commands.
package serve

// Package serve implements podrun serve. It connects the supervisor of pods (serve/supervisor)
// to the manifest sources that define the pods (serve/source), and to the HTTP API that shows
// them (serve/nodeapi); components.go lists its components. It also contains the client of that API, for the commands.
package serve

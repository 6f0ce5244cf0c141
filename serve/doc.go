// Package serve is podrun serve: it joins the supervisor of pods (serve/supervisor) with the
// manifest sources that define them (serve/source) and with the HTTP API that shows them
// (serve/nodeapi). It is also the client of that API, for the commands.
package serve

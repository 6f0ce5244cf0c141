// Package trace notes what a command does and when: its phases and its calls to the
// runtime. It writes them as a waterfall, as JSON, and as OpenTelemetry spans.
package trace

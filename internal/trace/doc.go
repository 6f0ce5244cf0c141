// Package trace records what a command does and when: its phases and its calls to the runtime.
// It writes them as JSON, or draws them as a waterfall in text or SVG.
package trace

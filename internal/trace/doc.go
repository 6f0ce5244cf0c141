// Package trace records what a command does and when: its phases and its calls to the
// runtime. It writes them as a waterfall, as text or SVG, and as JSON.
package trace

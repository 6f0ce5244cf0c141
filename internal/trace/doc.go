// Package trace records the phases of a command and its calls to the runtime, with their times. It
// writes them as JSON, or draws them as a waterfall in text or SVG.
package trace

// Package complete completes words of command lines for shells.
package complete

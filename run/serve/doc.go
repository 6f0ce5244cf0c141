// Package serve supervises pods: those that manifest directories ask for, and those
// that commands applied. Each pod has a goroutine of its own, which reads the
// pod's situation, lets Decide choose the step for it, and does that step until
// the situation asks for another one. No pod waits for another.
package serve

// Package supervisor supervises pods: those that manifest directories define, and those that
// commands applied. Each pod has a goroutine. It reads the pod's situation, asks Decide for the
// next step, and executes this step until the situation requires another one. Pods do not wait
// for each other.
package supervisor

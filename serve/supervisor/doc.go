// Package supervisor supervises the pods that manifest directories define or that commands applied.
// Each pod has a goroutine, which reads the pod's situation, asks Decide for the next step, and
// executes this step until the situation requires another one. Pods do not wait for each other.
package supervisor

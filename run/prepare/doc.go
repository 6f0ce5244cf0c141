// Package prepare plans pods: it computes, from the objects of a command and the host's
// facts, a plan for each pod, the pod that it replaces, and all problems. It is pure, and
// connects the plans of the nouns by passing values from one to the next.
package prepare

// Package prepare plans pods. From the objects of a command and the host's facts it computes a plan for
// each pod, the list of pods that it replaces, and all problems. It is pure, and connects the plans of
// the nouns by passing values from one to the next.
package prepare

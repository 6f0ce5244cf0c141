// Package prepare plans pods. From the objects of a command and the host's facts, it computes a plan
// for each pod, the list of pods that the new pod replaces, and all problems. It is pure. It combines
// the plans of sandboxes, containers, volumes and the other noun packages, by passing values from one
// to the next.
package prepare

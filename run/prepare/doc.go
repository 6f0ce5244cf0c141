// Package prepare plans pods: from the objects of a command and the host's facts to
// a plan for each pod, what it replaces, and every problem. It is pure, and joins
// the nouns' plans by passing values from one to the next.
package prepare

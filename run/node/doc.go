// Package node contains the state that the pods of one process share: the settings, the
// runtime's client, the locks, the warnings. It also admits pods: it reads the host under
// the node's lock, calls package prepare to plan, and reserves the admitted resources.
package node

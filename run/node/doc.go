// Package node contains the state that the pods of one process share: the settings, the runtime's
// client, the locks and the warnings. It also admits pods: under the node's lock it reads the host,
// plans with package prepare, and reserves the resources of the admitted pods.
package node

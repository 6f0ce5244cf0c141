// Package node is what the pods of one process share: the settings, the runtime's
// client, the locks, the warnings. It admits pods: it reads the host under the
// node's lock, lets package prepare plan, and reserves what was admitted.
package node

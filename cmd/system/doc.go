// Package system contains the commands that manage this host: serve, service, runtime, doctor and gc.
package system

// Package access works inside containers that run: commands, attached streams, copied files, logs and forwarded
// ports.
package access

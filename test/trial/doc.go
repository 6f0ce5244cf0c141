// Package trial runs commands that users of kubectl, docker, podman, crictl, systemctl and CI typed before they
// had read podrun's help. It counts the commands that do what the users expected, and those that print an
// alternative.
package trial

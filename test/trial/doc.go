// Package trial runs commands that users of kubectl, docker, podman, crictl, systemctl and CI typed before they
// had read podrun's help. It counts how many of them do what was expected, or print what to type instead.
package trial

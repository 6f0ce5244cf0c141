// Package trial runs the commands that users of kubectl, docker, podman, crictl, systemctl and CI typed before they
// had read podrun's help, and counts how many do what was expected, or print what to type instead.
package trial

// Package imagestore lists, pulls, loads, saves and removes the images of the runtime.
package imagestore

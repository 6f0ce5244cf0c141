// Package images contains the command image, which manages the images of the runtime.
package images

package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// serve runs a registry that has the images in memory. It is for machines on which no packages
// can be installed.
func serve(address string, images map[string]remote.Taggable) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	served := make(chan error, 1)
	go func() { served <- http.Serve(l, registry.New(registry.Logger(log.New(io.Discard, "", 0)))) }()
	if err := pushAll(address, images); err != nil {
		return err
	}
	fmt.Println("ready")
	return fmt.Errorf("serve: %w", <-served)
}

// Images builds the images of the tests and the examples and pushes them to a registry:
//
//	go run ./hack/images -registry 127.0.0.1:5055 -bin DIR
//	go run ./hack/images -registry 127.0.0.1:5000 -bin DIR -save DIR
//	go run ./hack/images -registry 127.0.0.1:5000 -bin DIR -serve
//	go run ./hack/images -registry 127.0.0.1:5055 -bin DIR -conformance
//
// DIR contains the static programs pause and httpd. With -save, Images does not push images. It
// writes the images that a runtime must have in advance as docker-archives, with their names in the
// registry or, without -registry, the names in the examples. With -serve, it runs the registry
// until it is killed. It prints a message when the images are available. Builds are reproducible:
// if an image is built again, it has the same digest. With -conformance, Images pushes the images
// of test/conformance instead (conformance.go).
//
//	pause:3.9          the sandbox's process
//	busybox:1.36       busybox and its links; sh is the command
//	busybox:nonroot    runs as 65532
//	busybox:username   runs as "app", an entry of its /etc/passwd (uid 1000)
//	busybox:pull       as 1.36 with an additional layer; never pulled in advance
//	busybox:smoke      the same, for the test of the runtime
//	busybox:private    the same, for the registries that require credentials
//	busybox:credentials, busybox:listed, busybox:warm, busybox:volume
//	                   the same, each for one test
//	busybox:otherarch  an index without an image for this architecture
//	httpd:1            the server of hack/images/httpd
//	big:1              busybox and 8 MiB that do not compress; never pulled in advance
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/sync/errgroup"
)

// architecture is the architecture of the images (GOARCH).
var architecture = runtime.GOARCH

func main() {
	registry := flag.String("registry", "", "`host:port` to push to")
	bin := flag.String("bin", "", "`directory` of the static programs pause and httpd")
	busybox := flag.String("busybox", "/bin/busybox", "`path` of a static busybox")
	archives := flag.String("save", "", "write docker-archives to this `directory` instead of pushing")
	serves := flag.Bool("serve", false, "serve the images as a registry on this address")
	specs := flag.Bool("conformance", false, "push the images of Kubernetes' e2e tests; -bin is where test/conformance builds programs")
	flag.StringVar(&architecture, "arch", architecture, "architecture of the images, and of the programs in -bin and -busybox")
	flag.Parse()
	all := build
	if *specs {
		all = conformance
	}
	images, err := all(*bin, *busybox)
	if err == nil {
		err = run(*registry, *archives, *serves, images)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(registry, archives string, serves bool, images map[string]remote.Taggable) error {
	switch {
	case archives != "":
		return save(archives, registry, images)
	case serves:
		return serve(registry, images)
	}
	return pushAll(registry, images)
}

func pushAll(registry string, images map[string]remote.Taggable) error {
	var pushes errgroup.Group
	for tag, image := range images {
		pushes.Go(func() error { return push(registry+"/"+tag, image) })
	}
	return pushes.Wait()
}

// push writes an image or an index to a registry over plain HTTP.
func push(ref string, image remote.Taggable) error {
	tag, err := name.NewTag(ref, name.Insecure)
	if err != nil {
		return fmt.Errorf("push %s: %w", ref, err)
	}
	switch image := image.(type) {
	case v1.ImageIndex:
		err = remote.WriteIndex(tag, image)
	case v1.Image:
		err = remote.Write(tag, image)
	default:
		err = fmt.Errorf("neither an image nor an index: %T", image)
	}
	if err != nil {
		return fmt.Errorf("push %s: %w", ref, err)
	}
	return nil
}

// Shop runs the test of Services of package test/shop in a guest, in which podrun already runs the shop:
//
//	shop PODRUN ROOTDIR DIR KILLS   kills pods, and prints a report
//	shop manifest DIR               prints the manifest
//	shop settings                   prints the settings
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/test/shop"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "shop:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 2 && args[0] == "manifest" {
		// A request starts four processes, for which the emulated guest needs most of its CPU time.
		_, err := fmt.Print(shop.Manifest("busybox:1.36", args[1], time.Second))
		return err
	}
	if len(args) == 1 && args[0] == "settings" {
		_, err := fmt.Print(shop.Settings)
		return err
	}
	if len(args) != 4 {
		return errors.New("usage: shop PODRUN ROOTDIR DIR KILLS, shop manifest DIR, or shop settings")
	}
	kills, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	s := shop.Shop{Layout: embedded.ReadLayout(args[1]), Dir: args[2], Patience: 10 * time.Minute, // the guest is emulated
		Podrun: func(command ...string) (string, error) {
			out, err := exec.Command(args[0], append(command, "--root-dir="+args[1])...).Output()
			return string(out), err
		},
		Log: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) },
	}
	report, err := s.Run(context.Background(), kills)
	fmt.Println(report)
	for _, text := range report.Failed {
		fmt.Fprint(os.Stderr, "failed after readiness: ", text)
	}
	if err == nil && len(report.Failed) > 0 {
		err = fmt.Errorf("%d requests failed after readiness", len(report.Failed))
	}
	return err
}

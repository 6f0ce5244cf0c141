package cli

import (
	"testing"

	"github.com/podrun/podrun/cmd/view"
)

func TestColors(t *testing.T) {
	for status, want := range map[string]view.Hue{
		"Running": view.Green, "Completed": view.Green, "Init:0/1": view.Yellow, "Init:Error": view.Red, "CrashLoopBackOff": view.Red,
		"OOMKilled": view.Red, "Pending": view.Yellow, "Unknown": view.Yellow, "pass": view.Green, "warn": view.Yellow, "fail": view.Red, "skip": view.Plain,
	} {
		if got := view.HueOf(status); got != want {
			t.Errorf("%s: %q, want %q", status, got, want)
		}
	}
	for _, c := range []struct {
		flag  string
		color bool
	}{{"auto", false}, {"", false}, {"always", true}, {"never", false}} {
		a := New(Streams{})
		if a.color = c.flag; a.ScreenOf(nil).Color != c.color {
			t.Errorf("--color=%s without a terminal: %v", c.flag, !c.color)
		}
	}
	if view.CheckColor("blue") == nil || view.CheckColor("never") != nil {
		t.Error("checkColor")
	}
}

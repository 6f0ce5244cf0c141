package main

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestOrder(t *testing.T) {
	for round, want := range [][]int{{0, 1, 2}, {2, 1, 0}, {0, 1, 2}} {
		if got := order(round, 3); !slices.Equal(got, want) {
			t.Errorf("round %d: %v, want %v", round, got, want)
		}
	}
}

func TestRounds(t *testing.T) {
	for _, c := range []struct {
		name string
		took time.Duration // duration of each round
		most int
		want int
	}{
		{"all fit", time.Second, 11, 11},
		{"no new one after the limit", 10 * time.Second, 11, 4},
		{"as many as are necessary", time.Minute, 11, minRounds},
		{"fewer are required", time.Minute, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				for range (options{limit: 40 * time.Second}).rounds(c.most) {
					time.Sleep(c.took)
					n++
				}
				if n != c.want {
					t.Errorf("%d rounds, want %d", n, c.want)
				}
			})
		})
	}
}

package crash

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestRandomKills kills commands at random times instead of at their steps. It ends when it has
// killed PODRUN_CRASH_KILLS commands (default 3). PODRUN_CRASH_SEED determines the commands,
// the times, and the commands that follow.
func TestRandomKills(t *testing.T) {
	o, dir := onRuntime(t)
	// This call ignores leftovers from before the test.
	o.leaks(t.Context(), newHost(dir, 0))
	seed := uint64(number("PODRUN_CRASH_SEED", 1))
	t.Logf("PODRUN_CRASH_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	var all []verdict
	for kills := number("PODRUN_CRASH_KILLS", 3); kills > 0; {
		cells := make([]cell, kills)
		for i := range cells {
			cells[i] = randomCell(random)
		}
		tried := sweep(t, o, dir, 100+len(all), cells)
		if len(tried) == 0 {
			// the time limit of the test has expired
			break
		}
		all = append(all, tried...)
		for _, v := range tried {
			if v.killed {
				kills--
			}
		}
	}
	report(fmt.Sprintf("random kills, seed %d", seed), commands, len(all), all)
}

// mostOf contains the approximate duration of each command while other lanes are busy. A later kill
// has no effect.
var mostOf = map[string]time.Duration{"restart": 3 * time.Second, "replace": 3 * time.Second, "serve": 5 * time.Second}

// randomCell chooses a command, the time at which it is killed, and the command after the kill.
func randomCell(random *rand.Rand) cell {
	command := commands[random.IntN(len(commands))]
	most := mostOf[strings.TrimSuffix(strings.TrimSuffix(command, inMemory), legacy)]
	if most == 0 {
		most = 2 * time.Second
	}
	follow := thens(command)
	return cell{command: command, then: follow[random.IntN(len(follow))],
		after: time.Duration(1 + random.Int64N(int64(most))).Round(time.Millisecond)}
}

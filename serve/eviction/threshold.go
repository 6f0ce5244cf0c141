package eviction

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/resource"
)

// Amount is a quantity or a fraction of a capacity. It can be compared with ==.
type Amount struct {
	Quantity string  // in canonical form, such as 100Mi; "" for a fraction of the capacity
	Part     float32 // the fraction of the capacity; 0.1 means 10%
}

// of returns the absolute amount for a given capacity.
func (a Amount) of(capacity int64) apiresource.Quantity {
	if a.Quantity == "" {
		return *apiresource.NewQuantity(int64(float64(capacity)*float64(a.Part)), apiresource.BinarySI)
	}
	q, err := resource.ParseQuantity(a.Quantity)
	if err != nil {
		// ParseQuantity cannot fail, because parseAmount produced the value.
		panic(err)
	}
	return q
}

func parseAmount(text string) (Amount, error) {
	if number, ok := strings.CutSuffix(text, "%"); ok {
		percent, err := strconv.ParseFloat(number, 32)
		if err != nil || !(percent >= 0 && percent <= 100) {
			return Amount{}, fmt.Errorf("%q is not a percentage", text)
		}
		return Amount{Part: float32(percent) / 100}, nil
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return Amount{}, fmt.Errorf("%q is neither a quantity nor a percentage", text)
	}
	return Amount{Quantity: q.String()}, nil
}

// Threshold is the minimum available amount of a resource. It can be compared with ==.
type Threshold struct {
	Signal Signal
	Value  Amount
	// Grace is how long the threshold must be crossed before podrun evicts pods; 0 for a hard
	// threshold.
	Grace time.Duration
	// Reclaim is the minimum reclaim: a threshold that was met remains met until the available
	// amount exceeds Value by Reclaim.
	Reclaim Amount
}

// Hard reports whether podrun evicts pods as soon as the threshold is crossed.
func (t Threshold) Hard() bool { return t.Grace == 0 }

// Thresholds returns the node's thresholds in the order of reclaiming: memory first, as in the
// kubelet, and hard ones before soft ones. It reports an invalid threshold as a problem, and skips
// it. It also omits signals that podrun does not support.
func Thresholds(s nodeconfig.Settings) ([]Threshold, problem.List) {
	var out []Threshold
	var bad problem.List
	add := func(field string, thresholds map[string]string, grace func(signal string) (time.Duration, error)) {
		for _, name := range slices.Sorted(maps.Keys(thresholds)) {
			value := thresholds[name]
			if !Signal(name).known() || nodeconfig.NoThreshold(value) {
				continue
			}
			t, err := threshold(Signal(name), value, s.EvictionMinimumReclaim[name])
			if err == nil {
				t.Grace, err = grace(name)
			}
			if err != nil {
				bad = append(bad, problem.Problem{Object: "settings", Field: field + "." + name, Reason: "InvalidSetting",
					Message: err.Error() + ": the threshold is ignored", Hint: "correct the settings", Warning: true})
				continue
			}
			out = append(out, t)
		}
	}
	add("evictionHard", s.EvictionHard, func(string) (time.Duration, error) { return 0, nil })
	add("evictionSoft", s.EvictionSoft, func(signal string) (time.Duration, error) {
		return time.ParseDuration(s.EvictionSoftGracePeriod[signal])
	})
	slices.SortStableFunc(out, func(a, b Threshold) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Signal), slices.Index(order, b.Signal)), cmp.Compare(a.Grace, b.Grace))
	})
	return out, bad
}

func threshold(signal Signal, value, reclaim string) (t Threshold, err error) {
	t.Signal = signal
	if t.Value, err = parseAmount(value); err == nil && reclaim != "" {
		t.Reclaim, err = parseAmount(reclaim)
	}
	return t, err
}

// crossed returns the thresholds that are crossed. If reclaim is true, it adds the minimum reclaim
// to each threshold first.
func crossed(all []Threshold, o Observations, reclaim bool) []Threshold {
	var out []Threshold
	for _, t := range all {
		seen, ok := o[t.Signal]
		if !ok {
			continue
		}
		least := t.Value.of(seen.Capacity)
		if reclaim {
			least.Add(t.Reclaim.of(seen.Capacity))
		}
		if least.CmpInt64(seen.Available) > 0 {
			out = append(out, t)
		}
	}
	return out
}

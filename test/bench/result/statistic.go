package result

import (
	"math"
	"slices"

	"github.com/aclements/go-moremath/stats"
)

// Confidence is the confidence level of a statistic's interval. A run has about 40 rows, so a level of
// 0.95 would call two of them slower or faster by chance.
const Confidence = 0.99

// Statistic summarizes the samples of a figure. It includes outliers.
type Statistic struct {
	Rounds int     `json:"rounds"` // number of samples
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
	// Low and High are the confidence interval of the median, from order statistics, as in
	// golang.org/x/perf/benchmath. Because fewer than eight samples have no such interval, their Low and
	// High are the smallest and the largest sample.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// minRounds is the smallest number of samples with a confidence interval.
const minRounds = 8

// Summarize returns the statistic of samples, rounded to five significant digits; or zeros if there
// are no samples.
func Summarize(samples []float64) Statistic {
	if len(samples) == 0 {
		return Statistic{}
	}
	s := stats.Sample{Xs: slices.Sorted(slices.Values(samples)), Sorted: true}
	least, greatest := s.Bounds()
	median, low, high := stats.QuantileCI(len(samples), 0.5, Confidence).SampleCI(s)
	return Statistic{Rounds: len(samples), Min: round(least), Median: round(median), P95: round(s.Quantile(0.95)),
		Low: round(max(low, least)), High: round(min(high, greatest))}
}

// round keeps five significant digits, more than any figure deserves.
func round(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	scale := math.Pow(10, 4-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

// Ratios returns the ratio of each pair of samples. A pair without a partner, or with a zero, has no
// ratio.
func Ratios(samples, others []float64) []float64 {
	return pairs(samples, others, func(a, b float64) (float64, bool) { return a / b, b != 0 })
}

// Differences returns the difference of each pair of samples.
func Differences(samples, others []float64) []float64 {
	return pairs(samples, others, func(a, b float64) (float64, bool) { return a - b, true })
}

func pairs(samples, others []float64, of func(a, b float64) (float64, bool)) []float64 {
	var out []float64
	for i := range min(len(samples), len(others)) {
		if v, ok := of(samples[i], others[i]); ok {
			out = append(out, v)
		}
	}
	return out
}

// Verdict is the result of the comparison of two programs.
type Verdict string

// The verdicts about podrun, relative to another program.
const (
	Equal  Verdict = "equal"
	Slower Verdict = "slower" // podrun's figure is larger
	Faster Verdict = "faster"
	TooFew Verdict = "too few rounds"
)

// unchanged is the ratio of equal figures.
const unchanged = 1.0

// Verdict judges a ratio of podrun's figures to those of another program: they are equal unless the
// interval of the median excludes 1.
func (s Statistic) Verdict() Verdict {
	switch {
	case s.Low <= unchanged && s.High >= unchanged:
		return Equal
	case s.Rounds < minRounds:
		return TooFew
	case s.Low > unchanged:
		return Slower
	}
	return Faster
}

// Combine returns the statistic of several runs: the median of their medians, and the range of all of
// them.
func Combine(runs []Statistic) Statistic {
	var medians []float64
	var all Statistic
	for i, s := range runs {
		if i == 0 {
			all = s
			all.Rounds = 0
		}
		medians = append(medians, s.Median)
		all.Rounds += s.Rounds
		all.Min, all.P95 = min(all.Min, s.Min), max(all.P95, s.P95)
		all.Low, all.High = min(all.Low, s.Low), max(all.High, s.High)
	}
	all.Median = Summarize(medians).Median
	return all
}

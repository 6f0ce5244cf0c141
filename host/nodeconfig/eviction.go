package nodeconfig

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podrun/podrun/internal/resource"
)

// signals are the kubelet's eviction signals (pkg/kubelet/eviction/api).
var signals = []string{"memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree",
	"containerfs.available", "containerfs.inodesFree", "allocatableMemory.available", "pid.available"}

// checkEvictions checks the settings of evictions (pkg/kubelet/eviction/helpers.go).
func (f *file) checkEvictions(kc *kubelet.KubeletConfiguration) {
	f.checkThresholds("evictionHard", kc.EvictionHard)
	f.checkThresholds("evictionSoft", kc.EvictionSoft)
	for _, signal := range slices.Sorted(maps.Keys(kc.EvictionSoft)) {
		if _, ok := kc.EvictionSoftGracePeriod[signal]; !ok && !NoThreshold(kc.EvictionSoft[signal]) {
			f.invalid(fmt.Sprintf("evictionSoft[%s]", signal), "a soft threshold needs a grace period", "add the signal to evictionSoftGracePeriod")
		}
	}
	for _, signal := range slices.Sorted(maps.Keys(kc.EvictionSoftGracePeriod)) {
		at, value := fmt.Sprintf("evictionSoftGracePeriod[%s]", signal), kc.EvictionSoftGracePeriod[signal]
		if !f.checkSignal(at, signal) {
			continue
		}
		if d, err := time.ParseDuration(value); err != nil || d < 0 {
			f.invalid(at, fmt.Sprintf("%q is not a duration of 0s or more", value), "such as 1m30s")
		}
	}
	f.checkReclaims(kc.EvictionMinimumReclaim)
	if d := kc.EvictionPressureTransitionPeriod.Duration; d < 0 {
		f.invalid("evictionPressureTransitionPeriod", fmt.Sprintf("%s is negative", d), "")
	}
	if n := kc.EvictionMaxPodGracePeriod; n < 0 {
		f.invalid("evictionMaxPodGracePeriod", fmt.Sprintf("%d is negative", n), "")
	}
}

func (f *file) checkSignal(at, signal string) bool {
	if slices.Contains(signals, signal) {
		return true
	}
	f.invalid(at, "unknown eviction signal", "one of "+strings.Join(signals, ", "))
	return false
}

// checkThresholds checks thresholds. Each must be a positive quantity or a percentage; 0% and 100%
// disable the threshold.
func (f *file) checkThresholds(field string, thresholds map[string]string) {
	for _, signal := range slices.Sorted(maps.Keys(thresholds)) {
		at, value := fmt.Sprintf("%s[%s]", field, signal), thresholds[signal]
		if !f.checkSignal(at, signal) {
			continue
		}
		if number, isPercent := strings.CutSuffix(value, "%"); isPercent {
			if p, err := strconv.ParseFloat(number, 32); err != nil || !(p >= 0 && p <= 100) {
				f.invalid(at, fmt.Sprintf("%q is not a percentage from 0%% to 100%%", value), "")
			}
			continue
		}
		if q, err := resource.ParseQuantity(value); err != nil || q.Sign() <= 0 {
			f.invalid(at, fmt.Sprintf("%q is neither a positive quantity nor a percentage", value), "such as 100Mi or 10%")
		}
	}
}

// checkReclaims checks minimum reclaims. Each must be a percentage above 0, or a quantity that is
// not negative.
func (f *file) checkReclaims(reclaims map[string]string) {
	for _, signal := range slices.Sorted(maps.Keys(reclaims)) {
		at, value := fmt.Sprintf("evictionMinimumReclaim[%s]", signal), reclaims[signal]
		if !f.checkSignal(at, signal) {
			continue
		}
		if number, isPercent := strings.CutSuffix(value, "%"); isPercent {
			if p, err := strconv.ParseFloat(number, 32); err != nil || !(p > 0 && p <= 100) {
				f.invalid(at, fmt.Sprintf("%q is not a percentage above 0%%, up to 100%%", value), "")
			}
			continue
		}
		if q, err := resource.ParseQuantity(value); err != nil || q.Sign() < 0 {
			f.invalid(at, fmt.Sprintf("%q is neither a quantity of 0 or more nor a percentage", value), "such as 500Mi or 5%")
		}
	}
}

// checkImageGC checks the settings of image garbage collection
// (pkg/kubelet/apis/config/validation).
func (f *file) checkImageGC(kc *kubelet.KubeletConfiguration) {
	high, low := deref(kc.ImageGCHighThresholdPercent, 85), deref(kc.ImageGCLowThresholdPercent, 80)
	inRange := func(field string, n int32) bool {
		if n < 0 || n > 100 {
			f.invalid(field, fmt.Sprintf("%d is not between 0 and 100", n), "")
			return false
		}
		return true
	}
	const highField, lowField = "imageGCHighThresholdPercent", "imageGCLowThresholdPercent"
	if inRange(highField, high) && inRange(lowField, low) && low >= high {
		f.invalid(lowField, fmt.Sprintf("%d is not less than %s, which is %d", low, highField, high), "")
	}
	least, most := kc.ImageMinimumGCAge.Duration, kc.ImageMaximumGCAge.Duration
	if least < 0 {
		f.invalid("imageMinimumGCAge", fmt.Sprintf("%s is negative", least), "")
	}
	if least == 0 {
		least = 2 * time.Minute
	}
	switch {
	case most < 0:
		f.invalid("imageMaximumGCAge", fmt.Sprintf("%s is negative", most), "")
	case most > 0 && most <= least:
		f.invalid("imageMaximumGCAge", fmt.Sprintf("%s is not more than imageMinimumGCAge, which is %s", most, least), "")
	}
}

// mergeEvictions overrides settings for evictions and image garbage collection with the
// settings of a valid file.
func mergeEvictions(s *Settings, kc *kubelet.KubeletConfiguration) {
	s.EvictionHard = evictionHard(s.EvictionHard, kc)
	quantities(&s.EvictionSoft, kc.EvictionSoft)
	quantities(&s.EvictionSoftGracePeriod, kc.EvictionSoftGracePeriod)
	quantities(&s.EvictionMinimumReclaim, kc.EvictionMinimumReclaim)
	if d := kc.EvictionPressureTransitionPeriod.Duration; d != 0 {
		s.EvictionPressureTransitionPeriod = d
	}
	if kc.EvictionMaxPodGracePeriod != 0 {
		s.EvictionMaxPodGracePeriod = kc.EvictionMaxPodGracePeriod
	}
	setIfGiven(&s.ImageGCHighThresholdPercent, kc.ImageGCHighThresholdPercent)
	setIfGiven(&s.ImageGCLowThresholdPercent, kc.ImageGCLowThresholdPercent)
	if d := kc.ImageMinimumGCAge.Duration; d != 0 {
		s.ImageMinimumGCAge = d
	}
	if d := kc.ImageMaximumGCAge.Duration; d != 0 {
		s.ImageMaximumGCAge = d
	}
}

// evictionHard returns the hard thresholds. Those of the file replace all defaults. If the file
// sets mergeDefaultEvictionSettings, they replace only the defaults for the same signals.
func evictionHard(base map[string]string, kc *kubelet.KubeletConfiguration) map[string]string {
	switch {
	case kc.EvictionHard == nil:
		return base
	case kc.MergeDefaultEvictionSettings != nil && *kc.MergeDefaultEvictionSettings:
		return overlaid(base, kc.EvictionHard)
	}
	return kc.EvictionHard
}

// NoThreshold reports whether a percentage disables an eviction threshold, as in the kubelet.
func NoThreshold(value string) bool { return value == "0%" || value == "100%" }

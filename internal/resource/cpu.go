package resource

// Bounds of the kernel's cpu controller.
const (
	MinShares      = 2
	MaxShares      = 262144
	sharesPerCPU   = 1024
	milliPerCPU    = 1000
	minQuotaMicros = 1000
)

// CPUShares converts milli-CPUs to cpu.shares, from 2 to 262144. It returns 2 for 0.
func CPUShares(milli int64) uint64 {
	shares := milli * sharesPerCPU / milliPerCPU
	return uint64(min(max(shares, MinShares), MaxShares))
}

// CPUQuota converts milli-CPUs to a CFS quota in µs, at least 1000, for a period in µs. It
// returns 0, which means no quota, for 0.
func CPUQuota(milli, periodMicros int64) int64 {
	if milli == 0 {
		return 0
	}
	return max(milli*periodMicros/milliPerCPU, minQuotaMicros)
}

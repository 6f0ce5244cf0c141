package resource

// These are the limits of the kernel's cpu controller.
const (
	MinShares      = 2
	MaxShares      = 262144
	sharesPerCPU   = 1024
	milliPerCPU    = 1000
	minQuotaMicros = 1000
)

// CPUShares converts milli-CPUs to cpu.shares. The result is between 2 and 262144. It is 2 for 0.
func CPUShares(milli int64) uint64 {
	shares := milli * sharesPerCPU / milliPerCPU
	return uint64(min(max(shares, MinShares), MaxShares))
}

// CPUQuota converts milli-CPUs to a CFS quota in µs, for a period in µs. The result is at least
// 1000, except for 0: the result is then 0, which means no quota.
func CPUQuota(milli, periodMicros int64) int64 {
	if milli == 0 {
		return 0
	}
	return max(milli*periodMicros/milliPerCPU, minQuotaMicros)
}

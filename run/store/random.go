package store

import (
	"crypto/rand"
	"encoding/hex"
)

// RandomHex returns n random bytes as 2n hexadecimal digits.
func RandomHex(n int) string {
	raw := make([]byte, n)
	rand.Read(raw) // never fails (crypto/rand, Go 1.24)
	return hex.EncodeToString(raw)
}

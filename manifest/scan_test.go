package manifest

import (
	"math/rand/v2"
	"regexp"
	"testing"
)

// TestScansByHand compares manual scans with the regular expressions that they replace.
func TestScansByHand(t *testing.T) {
	aliases := regexp.MustCompile(`[\s,\[{:-]\*[A-Za-z0-9_-]`)
	numbers := regexp.MustCompile(`[0-9.][eE][+-]?0*[0-9]{2}|[0-9.]{40}`)
	const letters = "0011229.eE+-* \n,[{:aZ_x\"]"
	random := rand.New(rand.NewPCG(1, 2))
	found := 0
	for range 200_000 {
		text := make([]byte, random.IntN(60))
		for i := range text {
			text[i] = letters[random.IntN(len(letters))]
			if i > 0 && random.IntN(4) == 0 {
				text[i] = '0' + byte(random.IntN(10))
			}
		}
		if want := numbers.Match(text); hasLongNumber(text) != want {
			t.Fatalf("hasLongNumber(%q) is not %t", text, want)
		} else if want {
			found++
		}
		// Matches of an expression do not overlap: it matches "-*-*a" once, but the manual scan finds
		// two matches.
		if want, got := len(aliases.FindAllIndex(text, -1)), aliasMarks(text); got < want || got > 0 && want == 0 {
			t.Fatalf("aliasMarks(%q) = %d, want %d", text, got, want)
		}
	}
	if found < 1000 {
		t.Errorf("only %d texts had a long number", found)
	}
	for text, want := range map[string]bool{
		"0000000000000000000000000000000000000000": true, "000000000000000000000000000000000000000": false, "1e9999999": true, "1e9": false, "e10": false, ".e-10": true,
	} {
		if hasLongNumber([]byte(text)) != want {
			t.Errorf("hasLongNumber(%q) is not %t", text, want)
		}
	}
}

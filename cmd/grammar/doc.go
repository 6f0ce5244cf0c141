// Package grammar has the words of command lines: names of objects, commands and flags of other tools and what
// podrun makes of them, usage errors, and the hints that repeat what the user typed.
package grammar

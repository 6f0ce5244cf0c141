package cri

import (
	"regexp"
	"sync"
)

// CutEnvironment cuts a runtime's message after the name of a variable that it quotes in an error about
// the environment. runc 1.1 quotes the complete variable, which may be a password:
//
//	environment variable value can't contain null(\x00): "PASSWORD=hunter2\x00"
func CutEnvironment(message string) string {
	return quotedVariable().ReplaceAllString(message, "$1<redacted>")
}

var quotedVariable = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("(?is)(environment (?:variable|block|string)[^\"'`]*[\"'`][^\"'`=]*=).*")
})
